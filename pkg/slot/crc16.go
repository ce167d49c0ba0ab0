package slot

// polynomial is that of CRC-16/XMODEM, which begins with zero and reflects nothing.
const polynomial = 0x1021

// stride is how many bytes checksum takes at once. A byte at a time, every step
// waits for the one before it; with a stride the look-ups go side by side.
const stride = 8

// crcTables holds at [i][b] what byte b adds to the checksum when i more bytes
// follow it. It is never written after its making.
var crcTables = makeTables()

func makeTables() (t [stride][256]uint16) {
	for b := range t[0] {
		crc := uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= polynomial
			}
		}
		t[0][b] = crc
	}
	for i := 1; i < stride; i++ {
		for b := range t[i] {
			before := t[i-1][b]
			t[i][b] = before<<8 ^ t[0][before>>8]
		}
	}
	return t
}

// checksum returns the CRC16 of b.
func checksum(b []byte) uint16 {
	t := &crcTables
	var crc uint16
	for len(b) >= stride {
		crc = t[7][b[0]^byte(crc>>8)] ^ t[6][b[1]^byte(crc)] ^
			t[5][b[2]] ^ t[4][b[3]] ^ t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
		b = b[stride:]
	}
	if len(b) >= stride/2 {
		crc = t[3][b[0]^byte(crc>>8)] ^ t[2][b[1]^byte(crc)] ^ t[1][b[2]] ^ t[0][b[3]]
		b = b[stride/2:]
	}
	for _, c := range b {
		crc = crc<<8 ^ t[0][c^byte(crc>>8)]
	}
	return crc
}
