//go:build unix

package upstream

import "golang.org/x/sys/unix"

func closeDescriptor(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
