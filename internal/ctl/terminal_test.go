package ctl

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// terminal is what a run under test sees of the machine. No part of it is a terminal unless a test says so.
type terminal struct {
	t        *testing.T
	in       io.Reader
	out, err bytes.Buffer
	env      map[string]string
	isIn     bool
	isOut    bool
	typed    []string // passwords, in the order in which they are asked for
}

func newTerminal(t *testing.T) *terminal {
	return &terminal{t: t, in: strings.NewReader(""), env: map[string]string{"XDG_CONFIG_HOME": t.TempDir()}}
}

func (x *terminal) environment() *Environment {
	return &Environment{
		In: x.in, Out: &x.out, Err: &x.err, Getenv: func(name string) string { return x.env[name] },
		InTerminal: x.isIn, OutTerminal: x.isOut, Version: "1.2.3",
		ReadPassword: func() ([]byte, error) {
			if len(x.typed) == 0 {
				return nil, io.EOF
			}
			typed := x.typed[0]
			x.typed = x.typed[1:]
			return []byte(typed), nil
		},
	}
}

// run executes a command line; what it printed is in out and err.
func (x *terminal) run(args ...string) int {
	ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	return x.runIn(ctx, args...)
}

func (x *terminal) runIn(ctx context.Context, args ...string) int {
	x.out.Reset()
	x.err.Reset()
	return Run(ctx, x.environment(), args)
}
