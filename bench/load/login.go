package load

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// loginTime bounds the wait for the answer.
const loginTime = 5 * time.Second

const accepted = "+OK\r\n"

// logIn sends what a connection has to send before its first command, and waits for the answer.
func logIn(conn io.ReadWriter, login []byte) error {
	if len(login) == 0 {
		return nil
	}
	if _, err := conn.Write(login); err != nil {
		return fmt.Errorf("cannot log in: %w", err)
	}
	answer := make([]byte, len(accepted))
	if n, err := io.ReadFull(conn, answer); err != nil {
		return fmt.Errorf("cannot log in (%q so far): %w", answer[:n], err)
	}
	if string(answer) != accepted {
		return errors.New("cannot log in: the server refuses")
	}
	return nil
}
