//go:build !linux

package server

// acceptOnLoop reports false: without epoll every listener has a goroutine.
func (s *Server) acceptOnLoop(*listening) (started bool, err error) { return false, nil }
