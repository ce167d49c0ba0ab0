package tenant

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// The most that checking one password may cost, and the sizes of a hash's
// parts. Hashes come from configuration and from the admin API; a wrong number
// in one must not take the process down.
const (
	maxMemoryKiB = 256 << 10
	maxTime      = 16
	maxThreads   = 16
	minSalt      = 8
	minHash      = 16
	maxPart      = 64
)

// What HashArgon2id spends: OWASP's first recommendation for servers,
// https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html
const (
	usualMemoryKiB = 19 << 10
	usualTime      = 2
	usualThreads   = 1
	usualSalt      = 16
	usualHash      = 32
)

// argon2idHash is a hash and what is needed to compute another like it. The
// parts are strings so that hashes can be compared with ==, which is for
// finding what a reload changed, never for passwords.
type argon2idHash struct {
	memoryKiB uint32
	time      uint32
	threads   uint8
	salt      string
	hash      string
}

// ParseArgon2id takes an argon2id hash in PHC form,
// "$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH". Errors do not repeat it.
func ParseArgon2id(phc string) (Verifier, error) {
	hash, err := parsePHC(phc)
	if err != nil {
		return Verifier{}, fmt.Errorf("cannot read argon2id hash: %w", err)
	}
	return Verifier{kind: byArgon2id, argon: hash}, nil
}

var errNotPHC = errors.New("it is not of the form $argon2id$v=19$m=…,t=…,p=…$salt$hash")

func parsePHC(phc string) (argon2idHash, error) {
	parts := strings.Split(phc, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v=19" {
		return argon2idHash{}, errNotPHC
	}
	h, err := parseCost(parts[3])
	if err != nil {
		return argon2idHash{}, err
	}
	if h.salt, err = decodePart("salt", parts[4], minSalt); err != nil {
		return argon2idHash{}, err
	}
	if h.hash, err = decodePart("hash", parts[5], minHash); err != nil {
		return argon2idHash{}, err
	}
	return h, nil
}

func parseCost(text string) (argon2idHash, error) {
	var values [3]int
	fields := strings.Split(text, ",")
	if len(fields) != len(values) {
		return argon2idHash{}, errNotPHC
	}
	for i, name := range []string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(fields[i], name)
		value, err := strconv.ParseUint(digits, 10, 31)
		if !ok || err != nil {
			return argon2idHash{}, errNotPHC
		}
		values[i] = int(value)
	}
	memory, passes, threads := values[0], values[1], values[2]
	switch {
	case passes < 1 || passes > maxTime:
		return argon2idHash{}, fmt.Errorf("t=%d is not within 1 to %d passes", passes, maxTime)
	case threads < 1 || threads > maxThreads:
		return argon2idHash{}, fmt.Errorf("p=%d is not within 1 to %d threads", threads, maxThreads)
	case memory < 8*threads || memory > maxMemoryKiB:
		return argon2idHash{}, fmt.Errorf("m=%d is not within %d to %d KiB", memory, 8*threads, maxMemoryKiB)
	}
	// The bounds above keep every value within its type.
	return argon2idHash{memoryKiB: uint32(memory), time: uint32(passes), threads: uint8(threads)}, nil
}

func decodePart(name, encoded string, least int) (string, error) {
	decoded, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(decoded) < least || len(decoded) > maxPart || strings.ContainsAny(encoded, "\r\n") {
		return "", fmt.Errorf("its %s is not %d to %d bytes in base64 without padding", name, least, maxPart)
	}
	return string(decoded), nil
}

func (h *argon2idHash) verify(password []byte) bool {
	computed := argon2.IDKey(password, []byte(h.salt), h.time, h.memoryKiB, h.threads, uint32(len(h.hash)))
	return subtle.ConstantTimeCompare(computed, []byte(h.hash)) == 1
}

// HashArgon2id makes a hash with a salt of its own, in PHC form, which ParseArgon2id reads.
func HashArgon2id(password []byte) string {
	salt := make([]byte, usualSalt)
	// It never fails: crypto/rand ends the process when the system has no randomness.
	_, _ = rand.Read(salt)
	hash := argon2.IDKey(password, salt, usualTime, usualMemoryKiB, usualThreads, usualHash)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, usualMemoryKiB, usualTime, usualThreads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(hash))
}
