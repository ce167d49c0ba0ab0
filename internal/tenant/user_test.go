package tenant

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/config"
	"github.com/stretchr/testify/require"
)

func TestVerifiersAcceptTheirPasswordAlone(t *testing.T) {
	fromDigits, err := ParseSHA256(HashSHA256([]byte("secret")))
	require.NoError(t, err)
	fromCapitals, err := ParseSHA256(strings.ToUpper(HashSHA256([]byte("secret"))))
	require.NoError(t, err)
	fromPHC, err := ParseArgon2id(HashArgon2id([]byte("secret")))
	require.NoError(t, err)

	for name, verifier := range map[string]Verifier{
		"sha256": fromDigits, "sha256 in capitals": fromCapitals, "plain": VerifierOf("secret"), "argon2id": fromPHC,
	} {
		t.Run(name, func(t *testing.T) {
			user := NewUser("u", verifier)
			require.True(t, user.Verify([]byte("secret")))
			for _, wrong := range []string{"", "Secret", "secret ", "secre", "secret\x00"} {
				require.False(t, user.Verify([]byte(wrong)), wrong)
			}
			require.Equal(t, name == "argon2id", user.Slow())
		})
	}
}

func TestArgon2idOfAnotherProgram(t *testing.T) {
	// Made by the reference implementation: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1
	const phc = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	verifier, err := ParseArgon2id(phc)
	require.NoError(t, err)
	require.True(t, NewUser("u", verifier).Verify([]byte("password")))
	require.False(t, NewUser("u", verifier).Verify([]byte("passwore")))
}

func TestArgon2idHashesHaveTheirOwnSalt(t *testing.T) {
	require.NotEqual(t, HashArgon2id([]byte("secret")), HashArgon2id([]byte("secret")))
}

func TestPasswordsAreBounded(t *testing.T) {
	longest := strings.Repeat("x", MaxPassword)
	require.True(t, NewUser("u", VerifierOf(longest)).Verify([]byte(longest)))
	require.False(t, NewUser("u", VerifierOf(longest)).Verify([]byte(longest+"x")))

	tooLong := longest + "x"
	require.False(t, NewUser("u", VerifierOf(tooLong)).Verify([]byte(tooLong)))
	require.False(t, NewUser("u", VerifierOf(tooLong)).Verify(nil))
}

func TestZeroVerifierAcceptsNothing(t *testing.T) {
	require.False(t, NewUser("u", Verifier{}).Verify(nil))
	require.False(t, NewUser("u", Verifier{}).Verify([]byte("x")))
}

func TestHashesAreNotPrinted(t *testing.T) {
	digits := HashSHA256([]byte("secret"))
	verifier, err := ParseSHA256(digits)
	require.NoError(t, err)
	user := NewUser("alice", verifier)
	tenant := &Tenant{Name: "acme", Users: map[string]*User{"alice": user}}

	firstByte := fmt.Sprint(verifier.digest[0]) + " " + fmt.Sprint(verifier.digest[1])
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		for _, value := range []any{user, *user, verifier, tenant, *tenant} {
			printed := fmt.Sprintf(verb, value)
			require.NotContains(t, strings.ToLower(printed), digits[:16], verb)
			require.NotContains(t, printed, firstByte, verb)
		}
	}
	require.Equal(t, "alice", fmt.Sprint(user))
}

func TestBrokenSHA256IsRefused(t *testing.T) {
	for _, broken := range []string{"", "abc", strings.Repeat("g", 64), strings.Repeat("a", 63), strings.Repeat("a", 66)} {
		_, err := ParseSHA256(broken)
		require.Error(t, err, broken)
	}
}

func TestBrokenOrGreedyArgon2idIsRefused(t *testing.T) {
	const salt, hash = "c29tZXNhbHQ", "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for name, c := range map[string]struct{ phc, wrong string }{
		"empty":           {"", "not of the form"},
		"argon2i":         {"$argon2i$v=19$m=64,t=1,p=1$" + salt + "$" + hash, "not of the form"},
		"old version":     {"$argon2id$v=16$m=64,t=1,p=1$" + salt + "$" + hash, "not of the form"},
		"no version":      {"$argon2id$m=64,t=1,p=1$" + salt + "$" + hash, "not of the form"},
		"missing cost":    {"$argon2id$v=19$m=64,t=1$" + salt + "$" + hash, "not of the form"},
		"other order":     {"$argon2id$v=19$t=1,m=64,p=1$" + salt + "$" + hash, "not of the form"},
		"negative":        {"$argon2id$v=19$m=-64,t=1,p=1$" + salt + "$" + hash, "not of the form"},
		"overflow":        {"$argon2id$v=19$m=99999999999999999999,t=1,p=1$" + salt + "$" + hash, "not of the form"},
		"much memory":     {"$argon2id$v=19$m=262145,t=1,p=1$" + salt + "$" + hash, "m=262145"},
		"little memory":   {"$argon2id$v=19$m=31,t=1,p=4$" + salt + "$" + hash, "m=31"},
		"no pass":         {"$argon2id$v=19$m=64,t=0,p=1$" + salt + "$" + hash, "t=0"},
		"many passes":     {"$argon2id$v=19$m=64,t=17,p=1$" + salt + "$" + hash, "t=17"},
		"no thread":       {"$argon2id$v=19$m=64,t=1,p=0$" + salt + "$" + hash, "p=0"},
		"256 threads":     {"$argon2id$v=19$m=4096,t=1,p=256$" + salt + "$" + hash, "p=256"},
		"short salt":      {"$argon2id$v=19$m=64,t=1,p=1$c29t$" + hash, "salt"},
		"padded salt":     {"$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ=$" + hash, "salt"},
		"salt in lines":   {"$argon2id$v=19$m=64,t=1,p=1$c29tZX\nNhbHQ$" + hash, "salt"},
		"short hash":      {"$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + salt, "hash"},
		"long hash":       {"$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + hash + hash[:42] + hash[:4], "hash"},
		"something after": {"$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + hash + "$x", "not of the form"},
	} {
		t.Run(name, func(t *testing.T) {
			// Package config checks hashes by itself, since neither package knows the other.
			require.Error(t, config.CheckArgon2id(c.phc))
			_, err := ParseArgon2id(c.phc)
			require.ErrorContains(t, err, c.wrong)
			require.NotContains(t, err.Error(), salt)
			require.NotContains(t, err.Error(), hash)
		})
	}
}

func FuzzParseArgon2id(f *testing.F) {
	f.Add("$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	f.Add("$argon2id$v=19$m=4294967296,t=1,p=257$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	f.Fuzz(func(t *testing.T, phc string) {
		v, err := ParseArgon2id(phc)
		require.Equal(t, err == nil, config.CheckArgon2id(phc) == nil)
		if err != nil {
			require.Equal(t, Verifier{}, v)
			return
		}
		a := v.argon
		require.True(t, a.memoryKiB >= 8*uint32(a.threads) && a.memoryKiB <= maxMemoryKiB)
		require.True(t, a.time >= 1 && a.time <= maxTime && a.threads >= 1 && a.threads <= maxThreads)
		require.True(t, len(a.salt) >= minSalt && len(a.salt) <= maxPart)
		require.True(t, len(a.hash) >= minHash && len(a.hash) <= maxPart)
	})
}
