package session

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/route"
)

// serverInfo is what one of the tenant's servers says in INFO, by the names of the fields.
type serverInfo map[string]string

func readServers(replies [][]byte) []serverInfo {
	servers := make([]serverInfo, len(replies))
	for i, reply := range replies {
		servers[i] = serverInfo{}
		text, _ := route.Text(reply)
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
				servers[i][name] = value
			}
		}
	}
	return servers
}

func number(text string) int64 {
	v, _ := strconv.ParseInt(text, 10, 64) // what is none counts as 0
	return v
}

func sumOf(servers []serverInfo, name string) (sum int64) {
	for _, s := range servers {
		sum += number(s[name])
	}
	return sum
}

func mostOf(servers []serverInfo, name string) (most int64) {
	for _, s := range servers {
		most = max(most, number(s[name]))
	}
	return most
}

// leastOf is the oldest time, say, that any server tells.
func leastOf(servers []serverInfo, name string) (least int64) {
	for i, s := range servers {
		if v := number(s[name]); i == 0 || v < least {
			least = v
		}
	}
	return least
}

// firstOf is what the first server says that does not say usual.
func firstOf(servers []serverInfo, name, usual string) string {
	for _, s := range servers {
		if v := s[name]; v != "" && v != usual {
			return v
		}
	}
	return usual
}

// memoryLines are sums over the servers. How much they use is not told where it is other tenants' memory too.
func memoryLines(servers []serverInfo, shares bool) (lines []string) {
	for _, name := range []string{"used_memory", "used_memory_rss", "used_memory_peak", "used_memory_dataset", "total_system_memory", "maxmemory"} {
		sum := sumOf(servers, name)
		if shares && name != "maxmemory" {
			sum = 0
		}
		lines = append(lines, fmt.Sprintf("%s:%d", name, sum))
		if name != "used_memory_dataset" {
			lines = append(lines, fmt.Sprintf("%s_human:%s", name, humanBytes(sum)))
		}
	}
	return append(lines, "maxmemory_policy:"+firstOf(servers, "maxmemory_policy", "noeviction"))
}

// humanBytes is as Redis writes it.
func humanBytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%dB", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	return fmt.Sprintf("%.2f%c", v, "KMGTP"[unit])
}

func persistenceLines(servers []serverInfo) []string {
	return []string{
		fmt.Sprintf("loading:%d", mostOf(servers, "loading")), fmt.Sprintf("async_loading:%d", mostOf(servers, "async_loading")),
		fmt.Sprintf("rdb_changes_since_last_save:%d", sumOf(servers, "rdb_changes_since_last_save")),
		fmt.Sprintf("rdb_bgsave_in_progress:%d", mostOf(servers, "rdb_bgsave_in_progress")),
		fmt.Sprintf("rdb_last_save_time:%d", leastOf(servers, "rdb_last_save_time")),
		"rdb_last_bgsave_status:" + firstOf(servers, "rdb_last_bgsave_status", "ok"),
		fmt.Sprintf("aof_enabled:%d", leastOf(servers, "aof_enabled")),
		fmt.Sprintf("aof_rewrite_in_progress:%d", mostOf(servers, "aof_rewrite_in_progress")),
		"aof_last_bgrewrite_status:" + firstOf(servers, "aof_last_bgrewrite_status", "ok"),
		"aof_last_write_status:" + firstOf(servers, "aof_last_write_status", "ok"),
	}
}

// replicationLines tell how many replicas every write has; their addresses are not the client's business.
func replicationLines(servers []serverInfo) []string {
	return []string{"role:master", fmt.Sprintf("connected_slaves:%d", leastOf(servers, "connected_slaves")), "master_failover_state:no-failover"}
}

// keyspaceLines are the tenant's databases that have keys, each summed over the servers.
func keyspaceLines(servers []serverInfo, databases []int) (lines []string) {
	for _, database := range databases {
		name := fmt.Sprintf("db%d", database)
		var keys, expires, ttl int64
		for _, s := range servers {
			has := map[string]int64{}
			for _, field := range strings.Split(s[name], ",") {
				key, value, _ := strings.Cut(field, "=")
				has[key] = number(value)
			}
			keys += has["keys"]
			expires += has["expires"]
			ttl += has["avg_ttl"] * has["expires"]
		}
		if keys > 0 {
			lines = append(lines, fmt.Sprintf("%s:keys=%d,expires=%d,avg_ttl=%d", name, keys, expires, ttl/max(expires, 1)))
		}
	}
	return lines
}
