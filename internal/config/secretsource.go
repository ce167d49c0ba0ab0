package config

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// largestFile bounds what is read of a file that a key names.
const largestFile = 1 << 20

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretSource is a key that a password can come from, and its value.
type secretSource struct{ key, value string }

// onlySource is the key that is given; "" when none is or when several are,
// which is noted.
func (v validator) onlySource(key string, sources []secretSource) string {
	var given []string
	for _, s := range sources {
		if !v.sound(key + s.key) {
			return "unsound"
		}
		if s.value != "" {
			given = append(given, s.key)
		}
	}
	switch len(given) {
	case 0:
		return ""
	case 1:
		return given[0]
	}
	v.wrong(key+given[0], redactedSource(given[0], sources), "is given together with "+strings.Join(given[1:], " and "), "keep one of them")
	return "several"
}

func redactedSource(key string, sources []secretSource) string {
	if !strings.HasSuffix(key, "_file") && !strings.HasSuffix(key, "_env") {
		return redacted
	}
	i := slices.IndexFunc(sources, func(s secretSource) bool { return s.key == key })
	return shown(sources[i].value)
}

// secretFromFile reads a password, the file's content without the line's end.
func (v validator) secretFromFile(key string, path *string) Secret {
	given := *path
	content, ok := v.readKeyFile(key, path)
	if !ok {
		return Secret{}
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	switch {
	case text == "":
		v.wrong(key, shown(given), "is an empty file", "write the password into it")
	case strings.ContainsAny(text, "\n\x00"):
		v.wrong(key, shown(given), "has more than one line", "write the password alone into it")
	}
	return NewSecret(text)
}

func (v validator) secretFromVariable(key, name string) Secret {
	if !variableName.MatchString(name) {
		// It is not shown: it may well be the password itself.
		v.wrong(key, notShown, "is not the name of an environment variable", "name the variable that holds the password")
		return Secret{}
	}
	value := os.Getenv(name)
	if value == "" {
		v.wrong(key, shown(name), "names an environment variable that is not set", "set it, or use password_file")
	}
	return NewSecret(value)
}

// readKeyFile reads the file that a key names and makes its path absolute: a
// relative one starts where the configuration file is.
func (v validator) readKeyFile(key string, path *string) ([]byte, bool) {
	if !v.sound(key) {
		return nil, false
	}
	given := *path
	if strings.ContainsAny(given, "\n\r") || strings.Contains(given, "-----BEGIN") {
		v.wrong(key, notShown, "is not a path but a content", "write it to a file and name that")
		return nil, false
	}
	if !filepath.IsAbs(given) {
		*path = filepath.Join(v.directory, given)
	}
	if absolute, err := filepath.Abs(*path); err == nil {
		*path = absolute
	}
	content, err := readBounded(*path, largestFile)
	if err != nil {
		v.wrong(key, shown(given), "cannot be read: "+cause(err), "check that the file is there and that the daemon may read it")
		return nil, false
	}
	return content, true
}

func readBounded(path string, most int64) ([]byte, error) {
	// A pipe or a device could block or never end.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errFolder
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		err = errTooLarge
	}
	return content, err
}
