package redistest

import (
	"strconv"
	"strings"
)

// config is the server's redis.conf.
func (s *Server) config() string {
	lines := []string{
		"bind 127.0.0.1",
		"dir " + s.dir,
		`save ""`,
		"appendonly no",
		"enable-debug-command yes",
		"repl-diskless-sync-delay 0",
		"repl-ping-replica-period 1",
	}
	lines = append(lines, s.portLines()...)
	if s.cluster {
		lines = append(lines, s.clusterLines()...)
	}
	if s.socket != "" {
		lines = append(lines, "unixsocket "+s.socket, "unixsocketperm 700")
	}
	if s.options.password != "" {
		lines = append(lines, "requirepass "+s.options.password, "masterauth "+s.options.password)
	}
	for _, user := range s.options.users {
		lines = append(lines, "user "+user)
	}
	lines = append(lines, s.options.config...)
	return strings.Join(lines, "\n") + "\n"
}

func (s *Server) portLines() []string {
	port := strconv.Itoa(s.Port())
	if s.options.tls == nil {
		return []string{"port " + port}
	}
	return append(s.options.tls.configLines(), "port 0", "tls-port "+port)
}

func (s *Server) clusterLines() []string {
	lines := []string{
		"cluster-enabled yes",
		"cluster-config-file nodes.conf",
		"cluster-port " + strconv.Itoa(s.busPort.number),
		"cluster-node-timeout " + strconv.Itoa(int(nodeTimeout.Milliseconds())),
		"cluster-replica-validity-factor 0",
		"cluster-allow-replica-migration no",
	}
	if s.options.tls != nil {
		lines = append(lines, "tls-cluster yes")
	}
	return lines
}
