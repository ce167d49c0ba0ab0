package tenant

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// MaxPassword is the length of the longest password, in bytes. Longer ones
// match nothing, at the cost of one this long: whoever knows no password must
// not make the process hash megabytes.
const MaxPassword = 4096

// User is a name that clients authenticate with. Two users are equal (==) when
// they have the same name and verifier.
type User struct {
	Name     string
	verifier Verifier
}

// NewUser makes a user whose password the verifier knows.
func NewUser(name string, verifier Verifier) *User {
	return &User{Name: name, verifier: verifier}
}

// Verify says whether the password is the user's. Its time depends on the
// password's length, not on its content. When Slow it must not run on a loop.
func (u *User) Verify(password []byte) bool { return u.verifier.verify(password) }

// Slow says that Verify takes milliseconds and much memory, on purpose.
func (u *User) Slow() bool { return u.verifier.Slow() }

// Format prints the name alone whatever the verb: fmt would print the
// verifier, an unexported field, bare.
func (u User) Format(f fmt.State, _ rune) {
	// A failing writer is the business of who passed it.
	_, _ = io.WriteString(f, u.Name)
}

// Verifier can tell whether a password is the right one, without holding it.
// The zero Verifier accepts nothing.
type Verifier struct {
	kind   verifierKind
	digest [sha256.Size]byte // of kind sha256
	argon  argon2idHash      // of kind argon2id
}

type verifierKind uint8

const (
	acceptsNothing verifierKind = iota
	bySHA256
	byArgon2id
)

var errSHA256 = errors.New("cannot read SHA-256 hash: it is not 64 hexadecimal digits")

// ParseSHA256 takes the SHA-256 of a password as 64 hexadecimal digits. The
// error does not repeat them.
func ParseSHA256(digits string) (Verifier, error) {
	v := Verifier{kind: bySHA256}
	if len(digits) != hex.EncodedLen(len(v.digest)) {
		return Verifier{}, errSHA256
	}
	if _, err := hex.Decode(v.digest[:], []byte(digits)); err != nil {
		return Verifier{}, errSHA256
	}
	return v, nil
}

// VerifierOf makes a verifier for a password that is known as plain text, from
// a file or an environment variable.
func VerifierOf(password string) Verifier {
	if len(password) > MaxPassword {
		return Verifier{}
	}
	return Verifier{kind: bySHA256, digest: sha256.Sum256([]byte(password))}
}

// HashSHA256 is what ParseSHA256 reads.
func HashSHA256(password []byte) string {
	digest := sha256.Sum256(password)
	return hex.EncodeToString(digest[:])
}

// Slow says that verifying takes milliseconds and much memory, on purpose.
func (v *Verifier) Slow() bool { return v.kind == byArgon2id }

// Format keeps hashes out of whatever prints a verifier.
func (v Verifier) Format(f fmt.State, _ rune) {
	// A failing writer is the business of who passed it.
	_, _ = io.WriteString(f, "[redacted]")
}

func (v *Verifier) verify(password []byte) bool {
	tooLong := len(password) > MaxPassword
	if tooLong {
		password = password[:MaxPassword]
	}
	var matches bool
	switch v.kind {
	case bySHA256:
		digest := sha256.Sum256(password)
		matches = subtle.ConstantTimeCompare(digest[:], v.digest[:]) == 1
	case byArgon2id:
		matches = v.argon.verify(password)
	case acceptsNothing:
	}
	return matches && !tooLong
}
