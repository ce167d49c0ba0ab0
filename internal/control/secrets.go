package control

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keySize is that of AES-256.
const keySize = 32

// sealedPrefix begins every encrypted secret.
const sealedPrefix = "sealed:v1:"

// Sealer encrypts the secrets that the proxy must be able to read again: the passwords of clusters. It uses AES-256-GCM
// (NIST SP 800-38D) with a random nonce and the entity's key in the store as additional data, so that a sealed secret is of
// no use in another entity.
type Sealer struct {
	aead cipher.AEAD
	id   string // tells one key from another
}

var errNoKey = errors.New("the proxy has no secret key: give secrets.key_file or secrets.key_env, or a data directory")

// NewKey makes a key, as text for a file or a variable.
func NewKey() string {
	var key [keySize]byte
	_, _ = rand.Read(key[:])
	return base64.StdEncoding.EncodeToString(key[:])
}

// NewSealer makes a sealer of a key as NewKey writes it. The error does not repeat it.
func NewSealer(key string) (*Sealer, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(b) != keySize {
		return nil, fmt.Errorf("the secret key is not %d bytes in base64; `head -c %d /dev/urandom | base64` makes one", keySize, keySize)
	}
	block, err := aes.NewCipher(b)
	if err != nil {
		return nil, fmt.Errorf("cannot use the secret key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("cannot use the secret key: %w", err)
	}
	sum := sha256.Sum256(append([]byte("sluice key id "), b...))
	return &Sealer{aead: aead, id: hex.EncodeToString(sum[:4])}, nil
}

// Seal encrypts a secret of the entity with this key in the store. A nil sealer cannot.
func (s *Sealer) Seal(entity, secret string) (string, error) {
	if s == nil {
		return "", errNoKey
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce)
	sealed := s.aead.Seal(nonce, nonce, []byte(secret), []byte(entity))
	return sealedPrefix + s.id + ":" + base64.StdEncoding.EncodeToString(sealed), nil
}

// Open decrypts what Seal made for the same entity.
func (s *Sealer) Open(entity, sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, sealedPrefix)
	id, text, found := strings.Cut(rest, ":")
	switch {
	case !ok || !found:
		return "", errors.New("the secret is not sealed")
	case s == nil:
		return "", errNoKey
	case id != s.id:
		return "", fmt.Errorf("the secret was sealed with another key (%s, not %s): give that one, or write the secret again", id, s.id)
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) < s.aead.NonceSize() {
		return "", errors.New("the sealed secret is damaged: write it again")
	}
	secret, err := s.aead.Open(nil, b[:s.aead.NonceSize()], b[s.aead.NonceSize():], []byte(entity))
	if err != nil {
		return "", errors.New("the sealed secret is damaged: write it again")
	}
	return string(secret), nil
}

// isSealed reports whether a text is a secret that Seal made.
func isSealed(text string) bool { return strings.HasPrefix(text, sealedPrefix) }

// HashToken is how a token's secret is kept. It is 32 random bytes, which nobody can try through: a fast hash is enough.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// newToken makes the secret of a token.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return "slt_" + base64.RawURLEncoding.EncodeToString(b[:])
}
