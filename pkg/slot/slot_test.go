package slot

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expectations were taken from CLUSTER KEYSLOT of Redis 7.0.15.
func TestOfAgreesWithRedis(t *testing.T) {
	for key, want := range redisSlots() {
		require.Equal(t, want, Of([]byte(key)), "%q", key)
	}
}

func redisSlots() map[string]uint16 {
	return map[string]uint16{
		"":                       0,
		"a":                      15495,
		"foo":                    12182,
		"bar":                    5061,
		"key":                    12539,
		"123456789":              12739,
		"hello":                  866,
		"user:000000000001234":   9853,
		"{user1000}.following":   3443,
		"{user1000}.followers":   3443,
		"foo{}{bar}":             8363,
		"foo{{bar}}zap":          4015,
		"foo{bar}{zap}":          5061,
		"foo{bar":                15278,
		"}foo{bar}":              5061,
		"{}":                     15257,
		strings.Repeat("k", 100): 12619,
	}
}

func TestTagIsWhatRedisHashes(t *testing.T) {
	for key, want := range map[string]string{
		"":                     "",
		"plain":                "plain",
		"{user1000}.following": "user1000",
		"foo{}{bar}":           "foo{}{bar}",
		"foo{{bar}}zap":        "{bar",
		"foo{bar}{zap}":        "bar",
		"foo{bar":              "foo{bar",
		"foo}bar{":             "foo}bar{",
		"}foo{bar}":            "bar",
		"{}":                   "{}",
		"{a}":                  "a",
		"{":                    "{",
		"}":                    "}",
		"{\x00}":               "\x00",
	} {
		require.Equal(t, want, string(Tag([]byte(key))), "%q", key)
		if want != "" && !strings.Contains(want, "}") {
			require.Equal(t, Of([]byte(want)), Of([]byte("{"+want+"}x")), "%q", want)
		}
	}
}

// naiveSlot follows the text of the Redis Cluster specification bit by bit.
func naiveSlot(key []byte) uint16 {
	if open := strings.Index(string(key), "{"); open >= 0 {
		if end := strings.Index(string(key[open+1:]), "}"); end > 0 {
			key = key[open+1 : open+1+end]
		}
	}
	var crc uint16
	for _, b := range key {
		for bit := 7; bit >= 0; bit-- {
			feedback := crc>>15 ^ uint16(b>>bit)&1
			crc = crc<<1 ^ feedback*0x1021
		}
	}
	return crc & 0x3fff
}

func TestOfAgreesWithSpecificationForEveryLength(t *testing.T) {
	key := make([]byte, 0, 100)
	for i := range 100 {
		require.Equal(t, naiveSlot(key), Of(key), "%d bytes", i)
		key = append(key, byte(i*37+11))
	}
}

func TestOfAllocatesNothing(t *testing.T) {
	key := []byte("prefix:{user:1000}:suffix")
	var sum uint16
	require.Zero(t, testing.AllocsPerRun(200, func() { sum += Of(key) }))
	require.True(t, bytes.Contains(key, Tag(key)))
}

func FuzzOf(f *testing.F) {
	for key := range redisSlots() {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if got, want := Of(key), naiveSlot(key); got != want {
			t.Fatalf("%q: slot %d, want %d", key, got, want)
		}
	})
}

func BenchmarkOf(b *testing.B) {
	for _, key := range []string{"key", "user:000000000001234", "prefix:{user:1000}:suffix", strings.Repeat("k", 100)} {
		b.Run(key, func(b *testing.B) {
			p := []byte(key)
			for b.Loop() {
				Of(p)
			}
		})
	}
}
