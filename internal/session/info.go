package session

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
)

// tenantNumbers are what INFO says of the session's tenant, summed over the loops.
type tenantNumbers struct {
	clients  int
	commands uint64
	failures uint64
	byClass  [command.ClassCount]uint64
}

// info answers INFO [section …] with the proxy's own view: frameworks look for redis_version and role.
func (s *Session) info(sections [][]byte) {
	wanted := wantedSections(sections)
	name := s.tenant.Name
	var sum tenantNumbers
	s.askLoops(func(w *Worker) {
		if t := w.tenants[name]; t != nil {
			t.addTo(&sum)
		}
	}, func() []byte {
		return s.appendText(nil, s.renderInfo(wanted, &sum))
	})
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

func (s *Session) renderInfo(wanted map[string]bool, n *tenantNumbers) string {
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
		"redis_version:"+shared.Settings.RedisVersion, "redis_mode:"+s.redisMode(), "sluice_version:"+shared.Settings.Version,
		"os:"+runtime.GOOS, "arch_bits:64", fmt.Sprintf("process_id:%d", os.Getpid()), "run_id:"+shared.runID,
		fmt.Sprintf("uptime_in_seconds:%d", uptime), fmt.Sprintf("uptime_in_days:%d", uptime/86400))
	section("Clients", fmt.Sprintf("connected_clients:%d", n.clients), "blocked_clients:0")
	section("Memory", "maxmemory_policy:noeviction")
	section("Persistence", "loading:0")
	section("Stats", fmt.Sprintf("total_commands_processed:%d", n.commands), fmt.Sprintf("total_error_replies:%d", n.failures))
	section("Replication", "role:master", "connected_slaves:0")
	section("Cluster", "cluster_enabled:"+s.clusterEnabled())
	section("Sluice", append([]string{"tenant:" + s.tenant.Name, "user:" + tenantUser(s)}, classLines(n)...)...)
	return b.String()
}

func classLines(n *tenantNumbers) (lines []string) {
	for class, count := range n.byClass {
		if count > 0 {
			lines = append(lines, fmt.Sprintf("commands_%s:%d", strings.ReplaceAll(command.Class(class).String(), "-", "_"), count))
		}
	}
	return lines
}
