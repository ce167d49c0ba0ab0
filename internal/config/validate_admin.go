package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	stdout = "stdout"
	// shortestToken is how long the text of a token must be: it is hashed without salt, so it must not be guessable.
	shortestToken = 20
)

var sha256Digits = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)

func (v validator) admin() {
	a := &v.config.Admin
	if !v.config.Operated() {
		return
	}
	if !a.Off() {
		v.adminAddress("admin.address", a)
		if a.TLS != nil {
			v.tlsFiles("admin.tls.", "port", a.TLS)
		}
	}
	v.audit(&a.Audit)
	for i := range a.Tokens {
		v.token(fmt.Sprintf("admin.tokens[%d].", i), &a.Tokens[i], a.Tokens[:i])
	}
}

func (v validator) adminAddress(key string, a *Admin) {
	if !v.sound(key) {
		return
	}
	host, ok := v.address(key, a.Address, true)
	if ok && !loopback(host) && !a.Insecure && a.TLS == nil {
		v.wrong(key, shown(a.Address), "lets other machines reach the admin port without TLS",
			"use 127.0.0.1, give admin.tls, or set admin.insecure: true if the network keeps strangers away")
	}
	for i, l := range v.config.Listeners {
		if ok && l.Address == a.Address && !anyPort(a.Address) {
			v.wrong(key, shown(a.Address), fmt.Sprintf("is also listeners[%d].address", i), "give one of them another port")
		}
	}
}

// audit makes a file's path start where the configuration file is.
func (v validator) audit(audit *string) {
	const key = "admin.audit"
	if !v.sound(key) || *audit == off || *audit == stdout {
		return
	}
	given := *audit
	if !strings.Contains(given, "/") { // a mistyped word is not a file's name
		v.wrong(key, shown(given), "is neither off nor stdout nor a path with a slash", "choose one of them, such as /var/log/sluice/audit.log")
		return
	}
	if !filepath.IsAbs(given) {
		*audit = filepath.Join(v.directory, given)
	}
	if info, err := os.Stat(filepath.Dir(*audit)); err != nil || !info.IsDir() {
		v.wrong(key, shown(given), "is not in a folder that exists", "create the folder, or write off or stdout")
	}
}

func (v validator) token(key string, t *AdminToken, earlier []AdminToken) {
	var names []string
	for i := range earlier {
		names = append(names, earlier[i].Name)
	}
	v.name(key+"name", t.Name, names, "admin.tokens")
	if v.sound(key+"role") && t.Role == "" {
		v.wrong(key+"role", notSet, "is needed", "write viewer, operator or admin")
	}
	switch v.onlySource(key, []secretSource{{"sha256", t.SHA256.Reveal()}, {"token_file", t.TokenFile}, {"token_env", t.TokenEnv}}) {
	case "":
		v.wrong(strings.TrimSuffix(key, "."), shown(t.Name), "has no token", "give one of sha256, token_file and token_env")
	case "sha256":
		if !sha256Digits.MatchString(t.SHA256.Reveal()) {
			v.wrong(key+"sha256", redacted, "is not 64 hexadecimal digits", "write what printf %s TOKEN | sha256sum prints")
		}
		t.SHA256 = NewSecret(strings.ToLower(t.SHA256.Reveal()))
	case "token_file":
		t.SHA256 = v.tokenText(key+"token_file", v.secretFromFile(key+"token_file", &t.TokenFile))
	case "token_env":
		t.SHA256 = v.tokenText(key+"token_env", v.secretFromVariable(key+"token_env", t.TokenEnv))
	}
}

// tokenText hashes the text of a token as the API does.
func (v validator) tokenText(key string, text Secret) Secret {
	if text.Empty() {
		return Secret{} // noted
	}
	if len(text.Reveal()) < shortestToken {
		v.wrong(key, notShown, fmt.Sprintf("holds a token of less than %d bytes", shortestToken), "make one: openssl rand -base64 32")
	}
	sum := sha256.Sum256([]byte(text.Reveal()))
	return NewSecret(hex.EncodeToString(sum[:]))
}
