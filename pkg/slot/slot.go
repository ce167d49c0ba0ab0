// Package slot maps keys to the hash slots of Redis Cluster.
package slot

import "bytes"

// Count is the number of hash slots.
const Count = 16384

// Of returns the slot of key: the CRC16 (XMODEM) of its tag, modulo Count.
func Of(key []byte) uint16 {
	return checksum(Tag(key)) % Count
}

// Tag returns the part of key that decides its slot: what stands between the first
// '{' and the first '}' after it, or the whole key when there is no such part or it
// is empty. The result is a slice of key.
func Tag(key []byte) []byte {
	open := bytes.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	tag := key[open+1:]
	end := bytes.IndexByte(tag, '}')
	if end <= 0 {
		return key
	}
	return tag[:end]
}
