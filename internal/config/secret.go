package config

import (
	"encoding/json"
	"fmt"
	"io"
)

const redacted = "[redacted]"

// Secret is a text that must not be seen: however it is printed or encoded it
// shows as "[redacted]", or as nothing when it is empty. Reveal gives the text.
type Secret struct{ text string }

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text: text} }

// Reveal gives the text itself. Its callers are where secrets leave this type.
func (s Secret) Reveal() string { return s.text }

// Empty says that there is no text.
func (s Secret) Empty() bool { return s.text == "" }

// String shows that there is a secret, not which.
func (s Secret) String() string {
	if s.Empty() {
		return ""
	}
	return redacted
}

// Format makes every verb of package fmt print what String gives: without it
// %x or %#v would reach into the struct.
func (s Secret) Format(f fmt.State, _ rune) {
	// A failing writer is the business of who passed it.
	_, _ = io.WriteString(f, s.String())
}

// MarshalText hides the secret in JSON, YAML and every other text encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON renders the whole configuration with its keys, secrets redacted.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(plain(c)) }

// String is the configuration as indented JSON, secrets redacted.
func (c Config) String() string {
	text, err := json.MarshalIndent(plain(c), "", "  ")
	if err != nil {
		panic("BUG: cannot render the configuration: " + err.Error())
	}
	return string(text)
}

// GoString keeps %#v from printing what String does not.
func (c Config) GoString() string { return c.String() }
