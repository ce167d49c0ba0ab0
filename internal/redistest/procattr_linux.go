package redistest

import "syscall"

// dieWithParent ends the server when the thread that started it ends, that is
// with the test binary, also when that is killed or panics on its timeout.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
