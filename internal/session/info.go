package session

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// tenantNumbers are what INFO says of the session's tenant, summed over the loops.
type tenantNumbers struct {
	clients  int
	commands uint64
	failures uint64
	byClass  [command.ClassCount]uint64
	blocked  int
}

// info answers INFO [section …]: the proxy's own view of what concerns the connection, and what the tenant's servers say
// of the tenant's data. Frameworks decide by it what they may use.
func (s *Session) info(sections [][]byte) {
	wanted := wantedSections(sections)
	w, name := s.worker, s.tenant.Name
	p := s.newLocal()
	p.others++
	s.barrier = true
	go func() { // ends when every loop has answered or stopped
		var sum tenantNumbers
		for _, other := range w.shared.Workers {
			other.Loop.Call(func() { other.addNumbers(name, &sum) })
		}
		w.Loop.Post(func() { s.infoCounted(p, wanted, &sum) })
	}()
}

// addNumbers adds what the worker knows of a tenant. On its loop.
func (w *Worker) addNumbers(name string, sum *tenantNumbers) {
	if t := w.tenants[name]; t != nil {
		t.addTo(sum)
	}
	w.Each(func(s *Session) {
		if s.blocked != nil && s.tenant != nil && s.tenant.Name == name {
			sum.blocked++
		}
	})
}

// infoCounted goes on with INFO when the loops have been asked: the servers are next, if what they say is wanted.
func (s *Session) infoCounted(p *pending, wanted map[string]bool, sum *tenantNumbers) {
	if p.session == nil || !asksServers(wanted) {
		reply := []byte(nil)
		if p.session != nil {
			reply = s.appendText(nil, s.renderInfo(wanted, sum, nil))
		}
		p.complete(reply)
		return
	}
	slots := []int32{route.NoSlot}
	if s.sharded {
		slots = s.local.ShardSlots()
	}
	if len(slots) == 0 {
		p.complete(appendError(nil, errNotSent(upstream.Uncovered, false)))
		return
	}
	s.barrier = false
	s.scatterFor(p, route.FanOut(infoCommand, slots, s.worker.shared.Settings.OutputBuffer, func(dst []byte, replies [][]byte) []byte {
		if e := route.FirstError(replies); e != nil {
			return append(dst, e...)
		}
		return s.appendText(dst, s.renderInfo(wanted, sum, readServers(replies)))
	}), command.ClassServer, true)
}

var infoCommand = []byte("*1\r\n$4\r\nINFO\r\n") //nolint:gochecknoglobals // constant

// asksServers reports whether a section is wanted that the servers know.
func asksServers(wanted map[string]bool) bool {
	return wanted == nil || wanted["memory"] || wanted["persistence"] || wanted["replication"] || wanted["keyspace"]
}

// wantedSections maps the sections asked for; nil means the usual ones.
func wantedSections(sections [][]byte) map[string]bool {
	if len(sections) == 0 {
		return nil
	}
	wanted := make(map[string]bool, len(sections))
	for _, section := range sections {
		switch name := strings.ToLower(string(section)); name {
		case "default", "all", "everything":
			return nil
		default:
			wanted[name] = true
		}
	}
	return wanted
}

func (s *Session) renderInfo(wanted map[string]bool, n *tenantNumbers, servers []serverInfo) string {
	shared := s.worker.shared
	var b strings.Builder
	section := func(title string, lines ...string) {
		if wanted != nil && !wanted[strings.ToLower(title)] {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + title + "\r\n")
		for _, line := range lines {
			b.WriteString(line + "\r\n")
		}
	}
	uptime := int64(time.Since(shared.started).Seconds())
	section("Server",
		"redis_version:"+s.redisVersion(), "redis_git_sha1:00000000", "redis_git_dirty:0", "redis_mode:"+s.redisMode(),
		"sluice_version:"+shared.Settings.Version, "os:"+runtime.GOOS+" "+runtime.GOARCH, "arch_bits:64",
		fmt.Sprintf("process_id:%d", os.Getpid()), "run_id:"+shared.runID, "tcp_port:"+portOf(s.listener),
		fmt.Sprintf("server_time_usec:%d", time.Now().UnixMicro()),
		fmt.Sprintf("uptime_in_seconds:%d", uptime), fmt.Sprintf("uptime_in_days:%d", uptime/86400), "hz:10", "configured_hz:10")
	section("Clients", fmt.Sprintf("connected_clients:%d", n.clients), "cluster_connections:0",
		fmt.Sprintf("blocked_clients:%d", n.blocked), "tracking_clients:0")
	section("Memory", memoryLines(servers, s.sharesCluster())...)
	section("Persistence", persistenceLines(servers)...)
	section("Stats", fmt.Sprintf("total_commands_processed:%d", n.commands), fmt.Sprintf("total_error_replies:%d", n.failures))
	section("Replication", replicationLines(servers)...)
	section("Modules")
	section("Cluster", "cluster_enabled:"+s.clusterEnabled())
	section("Keyspace", keyspaceLines(servers, s.tenant.Databases)...)
	section("Sluice", append([]string{"tenant:" + s.tenant.Name, "user:" + tenantUser(s)}, classLines(n)...)...)
	return b.String()
}

// portOf is the port that the client came by; 0 for a unix socket, as in Redis.
func portOf(listener string) string {
	_, port, err := net.SplitHostPort(listener)
	if err != nil {
		return "0"
	}
	return port
}

func classLines(n *tenantNumbers) (lines []string) {
	for class, count := range n.byClass {
		if count > 0 {
			lines = append(lines, fmt.Sprintf("commands_%s:%d", strings.ReplaceAll(command.Class(class).String(), "-", "_"), count))
		}
	}
	return lines
}
