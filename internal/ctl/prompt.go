package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// maxSecret bounds a password or token that is read.
const maxSecret = 64 << 10

// confirm asks a question that is answered with y or n. Without a person there, --yes must have been given.
func (c *cli) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !c.env.InTerminal {
		return hinted("the same with --yes", "nothing was changed: nobody is there to answer %q", question)
	}
	fmt.Fprintf(c.env.Err, "%s [y/N] ", question)
	answer, err := answered(c, func() (string, error) { return bufio.NewReader(c.env.In).ReadString('\n') })
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &exitError{ExitError, "nothing was changed"}
}

// answered is what a person types, or an error as soon as the run is interrupted. A read cannot be ended: the one that is
// left behind ends with the program.
func answered[T any](c *cli, read func() (T, error)) (T, error) {
	type answer struct {
		text T
		err  error
	}
	typed := make(chan answer, 1)
	go func() {
		text, err := read()
		typed <- answer{text, err}
	}()
	select {
	case a := <-typed:
		return a.text, a.err
	case <-c.interrupted:
		fmt.Fprintln(c.env.Err)
		var nothing T
		return nothing, context.Canceled
	}
}

// readSecret asks for a secret at the terminal, or reads it from what is piped in.
func (c *cli) readSecret(prompt string) (string, error) {
	if !c.env.InTerminal {
		return c.pipedSecret()
	}
	fmt.Fprint(c.env.Err, prompt)
	secret, err := answered(c, c.env.ReadPassword)
	fmt.Fprintln(c.env.Err)
	if err != nil {
		return "", fmt.Errorf("cannot read from the terminal: %w", err)
	}
	return string(secret), nil
}

func (c *cli) pipedSecret() (string, error) {
	b, err := io.ReadAll(io.LimitReader(c.env.In, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("cannot read standard input: %w", err)
	}
	return oneLine(string(b), "standard input")
}

// oneLine is a secret without the end of its line.
func oneLine(text, from string) (string, error) {
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	switch {
	case len(text) > maxSecret:
		return "", fmt.Errorf("%s is longer than %d bytes", from, maxSecret)
	case text == "":
		return "", fmt.Errorf("%s is empty", from)
	case strings.ContainsAny(text, "\r\n"):
		return "", fmt.Errorf("%s has more than one line", from)
	}
	return text, nil
}

// passwordFlags are the ways to give a password: none shows it in the list of processes.
type passwordFlags struct {
	stdin bool
	file  string
}

func (p *passwordFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&p.stdin, "password-stdin", false, "read the password from standard input, one line")
	cmd.Flags().StringVar(&p.file, "password-file", "", "read the password from a file, one line")
}

func (p *passwordFlags) given() bool { return p.stdin || p.file != "" }

// read is the password that was given; without any, a person is asked twice.
func (p *passwordFlags) read(c *cli, cmd *cobra.Command) (string, error) {
	switch {
	case p.stdin && p.file != "":
		return "", usagef(cmd, "give one of --password-stdin and --password-file")
	case p.file != "":
		b, err := os.ReadFile(p.file)
		if err != nil {
			return "", fmt.Errorf("cannot read --password-file: %w", err)
		}
		return oneLine(string(b), "--password-file")
	case p.stdin:
		return c.pipedSecret()
	case !c.env.InTerminal:
		return "", usagef(cmd, "a password is needed: --password-stdin or --password-file FILE")
	}
	first, err := c.readSecret("password: ")
	if err != nil {
		return "", err
	}
	again, err := c.readSecret("again: ")
	switch {
	case err != nil:
		return "", err
	case first != again:
		return "", errors.New("the two passwords differ")
	}
	return oneLine(first, "the password")
}
