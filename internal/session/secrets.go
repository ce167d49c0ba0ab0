package session

import (
	"bytes"
	"strings"
)

// redacted stands for a secret where a command line is shown.
const redacted = "(redacted)"

var (
	authName    = []byte("auth")    //nolint:gochecknoglobals // constant
	helloName   = []byte("hello")   //nolint:gochecknoglobals // constant
	migrateName = []byte("migrate") //nolint:gochecknoglobals // constant
)

// secrets tells which arguments of a command line nobody may see.
func secrets(args [][]byte) func(i int) bool {
	name := args[0]
	switch {
	case bytes.EqualFold(name, authName):
		return func(i int) bool { return i > 0 }
	case bytes.EqualFold(name, helloName):
		return following(args, 2, map[string]int{"auth": 2})
	case bytes.EqualFold(name, migrateName):
		return following(args, 6, map[string]int{"auth": 1, "auth2": 2})
	}
	return func(int) bool { return false }
}

// following marks as many arguments behind an option as hidden says, from a position on.
func following(args [][]byte, from int, hidden map[string]int) func(i int) bool {
	secret := make([]bool, len(args))
	for i := from; i < len(args); i++ {
		n := 0
		if len(args[i]) <= 5 {
			n = hidden[strings.ToLower(string(args[i]))]
		}
		for ; n > 0 && i+1 < len(args); n-- {
			i++
			secret[i] = true
		}
	}
	return func(i int) bool { return secret[i] }
}
