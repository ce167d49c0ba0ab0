package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// maxScriptedArg bounds what a scripted node reads: a broken header must fail
// the test instead of asking for all memory.
const maxScriptedArg = 1 << 30

// readCommand reads one command, as an array or inline.
func readCommand(in *bufio.Reader) ([][]byte, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	line = bytes.TrimRight(line, "\r\n")
	if len(line) == 0 || line[0] != '*' {
		return bytes.Fields(line), nil
	}
	count, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return nil, fmt.Errorf("cannot read command header %q: %w", line, err)
	}
	args := make([][]byte, 0, min(max(count, 0), 1024))
	for range count {
		arg, err := readArgument(in)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

func readArgument(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(string(bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte("$"))))
	if err != nil || length < 0 || length > maxScriptedArg {
		return nil, fmt.Errorf("cannot read argument header %q", line)
	}
	arg := make([]byte, length+len("\r\n"))
	if _, err := io.ReadFull(in, arg); err != nil {
		return nil, err
	}
	return arg[:length], nil
}
