package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// The most that a configured argon2id hash may cost to check, and the sizes of
// its parts: a configuration must not be able to take the process down.
const (
	MaxArgon2idMemoryKiB = 256 << 10
	MaxArgon2idTime      = 16
	MaxArgon2idThreads   = 16
	MinArgon2idSalt      = 8
	MinArgon2idHash      = 16
	MaxArgon2idPart      = 64
)

var phcForm = regexp.MustCompile(`^\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$`)

// CheckArgon2id says what is wrong with a PHC text of an argon2id hash. Its
// errors do not repeat the text.
func CheckArgon2id(phc string) error {
	part := phcForm.FindStringSubmatch(phc)
	if part == nil {
		return errors.New("is not an argon2id hash in PHC form, version 19")
	}
	memory, passes, threads := atoi(part[1]), atoi(part[2]), atoi(part[3])
	switch {
	case memory > MaxArgon2idMemoryKiB:
		return fmt.Errorf("wants m=%d KiB of memory; the most is %d", memory, MaxArgon2idMemoryKiB)
	case passes < 1 || passes > MaxArgon2idTime:
		return fmt.Errorf("wants t=%d passes; 1 to %d are allowed", passes, MaxArgon2idTime)
	case threads < 1 || threads > MaxArgon2idThreads:
		return fmt.Errorf("wants p=%d threads; 1 to %d are allowed", threads, MaxArgon2idThreads)
	case memory < 8*threads:
		return fmt.Errorf("wants m=%d KiB of memory; the least is 8 for each thread", memory)
	case !sized(part[4], MinArgon2idSalt):
		return fmt.Errorf("has a salt that is not %d to %d bytes in base64 without padding", MinArgon2idSalt, MaxArgon2idPart)
	case !sized(part[5], MinArgon2idHash):
		return fmt.Errorf("has a hash that is not %d to %d bytes in base64 without padding", MinArgon2idHash, MaxArgon2idPart)
	}
	return nil
}

// atoi reads a few digits that are known to be digits.
func atoi(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic("BUG: not digits: " + digits)
	}
	return n
}

func sized(encoded string, least int) bool {
	decoded, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
	return err == nil && len(decoded) >= least && len(decoded) <= MaxArgon2idPart
}
