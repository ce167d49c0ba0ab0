package api

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that is written as text, such as "250ms" or "5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 250ms or 5s", text)
	}
	*d = Duration(v)
	return nil
}
