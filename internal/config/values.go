package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// ByteSize is a number of bytes. As text it is a whole number with an optional
// unit in any case, as in redis.conf: k, m, g are powers of 1000; kb, mb, gb
// and KiB, MiB, GiB are powers of 1024.
type ByteSize int64

var errSize = errors.New("is not a size in bytes; write one such as 1MiB, 512kb or 1048576")

// ParseByteSize reads a size such as "1MiB", "32mb" or "4096".
func ParseByteSize(text string) (ByteSize, error) {
	digits := strings.TrimRight(text, "bBgGiIkKmM ")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 0 {
		return 0, errSize
	}
	unit, ok := byteUnit(strings.ToLower(strings.TrimSpace(text[len(digits):])))
	if !ok || number > math.MaxInt64/unit {
		return 0, errSize
	}
	return ByteSize(number * unit), nil
}

func byteUnit(name string) (int64, bool) {
	switch name {
	case "", "b":
		return 1, true
	case "k":
		return 1000, true
	case "kb", "kib":
		return 1 << 10, true
	case "m":
		return 1000 * 1000, true
	case "mb", "mib":
		return 1 << 20, true
	case "g":
		return 1000 * 1000 * 1000, true
	case "gb", "gib":
		return 1 << 30, true
	}
	return 0, false
}

// String writes the size in the largest unit that it is a whole number of.
func (b ByteSize) String() string {
	for _, unit := range []struct {
		size ByteSize
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if b != 0 && b%unit.size == 0 {
			return strconv.FormatInt(int64(b/unit.size), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// FileMode is the permission bits of a file, written as an octal number in quotes.
type FileMode os.FileMode

func parseFileMode(text string) (FileMode, error) {
	bits, err := strconv.ParseUint(text, 8, 32)
	if err != nil || bits > 0o777 {
		return 0, errMode
	}
	return FileMode(bits), nil
}

// errMode asks for quotes because YAML reads 0660 as octal, 660 as decimal, and JSON knows no octal.
var errMode = errors.New(`is not a file mode; write it as an octal number in quotes, such as "0660"`)

// String writes the mode as it is configured.
func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

func parseDuration(text string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil && text != "0" {
		return 0, fmt.Errorf("has no unit; write a duration such as %ss or %sms", text, text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("is not a duration; write one such as 500ms, 30s or 5m")
	}
	return d, nil
}

// formatDuration writes durations as people do: 5m and 1h, not 5m0s and 1h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
