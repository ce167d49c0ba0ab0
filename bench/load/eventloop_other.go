//go:build !linux

package load

import (
	"context"
	"errors"
)

const hasEventLoops = false

func openEventLoop(context.Context, string, []flow, *failures) (fleet, error) {
	return nil, errors.New("event loops are for Linux only")
}
