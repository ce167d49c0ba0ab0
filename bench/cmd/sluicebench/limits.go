package main

import (
	"fmt"
	"syscall"
)

// wantedFiles is how many descriptors the largest scenario needs: a proxy with two per client, and some to spare.
const wantedFiles = 32 << 10

// raiseFileLimit raises the limit of open files for this process and, other than what the Go runtime does at start,
// for those that it starts.
func raiseFileLimit() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	wanted := syscall.Rlimit{Cur: wantedFiles, Max: max(limit.Max, wantedFiles)}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &wanted) == nil {
		return nil
	}
	// Only a privileged user may raise the hard limit; up to it is allowed to all.
	limit.Cur = min(limit.Max, wantedFiles)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot raise the limit of open files: %w", err)
	}
	return nil
}
