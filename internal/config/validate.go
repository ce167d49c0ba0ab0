package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	hostName  = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)
)

// validator looks for what no single value shows: contradictions, names that
// nothing has, files that cannot be read.
type validator struct {
	*findings
	config    *Config
	directory string // where relative paths start
}

func validate(c *Config, f *findings, directory string) {
	v := validator{findings: f, config: c, directory: directory}
	v.listeners()
	v.admin()
	v.store()
	v.secretKey()
	v.bounds()
	v.clusters()
	v.tenants()
	v.reachability()
	v.warnings()
}

// bounds checks the limits that only make sense together.
func (v validator) bounds() {
	c := v.config
	if v.sound("pipes") && c.Pipes.Limit > 0 && c.Pipes.Window == 0 {
		v.wrong("pipes.limit", shown(c.Pipes.Limit), "has no effect while pipes.window is 0s", "set pipes.window, or pipes.limit to 0")
	}
	if v.sound("stream_threshold") && v.sound("clients.output_buffer") && c.Clients.OutputBuffer < c.StreamThreshold {
		v.wrong("clients.output_buffer", shown(c.Clients.OutputBuffer.String()),
			fmt.Sprintf("is less than stream_threshold, %s: one reply could exceed it", c.StreamThreshold), "make it at least as large")
	}
}

// address checks host:port and gives the host.
func (v validator) address(key, address string, listens bool) (host string, ok bool) {
	wrong, mend := "", ""
	host, port, err := net.SplitHostPort(address)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	switch {
	case address == "":
		v.wrong(key, notSet, "is needed", "write host:port")
		return "", false
	case strings.Contains(address, "://"):
		wrong, mend = "is a URL", "write host:port alone"
	case err != nil && !strings.Contains(address, ":"):
		wrong, mend = "has no port", "write host:port"
	case err != nil:
		wrong, mend = "is not host:port", "put an IPv6 address in brackets: [::1]:6379"
	case numberErr != nil || number == 0 && !listens:
		wrong, mend = "has no valid port", "use one of 1 to 65535"
	case host == "" && !listens:
		wrong, mend = "has no host", "write host:port"
	case host != "" && !isHost(host):
		wrong, mend = "has no valid host", "write an IP address or a host name"
	default:
		return host, true
	}
	v.wrong(key, shown(address), wrong, mend)
	return "", false
}

func isHost(host string) bool {
	address, _, _ := strings.Cut(host, "%")
	return net.ParseIP(address) != nil || hostName.MatchString(host)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// anyPort says that the system picks the port, so that equal addresses are not the same.
func anyPort(address string) bool { return strings.HasSuffix(address, ":0") }

// name checks the name of a cluster or tenant and that no earlier one has it.
func (v validator) name(key, name string, earlier []string, list string) {
	if !v.sound(key) {
		return
	}
	if name == "" {
		v.wrong(key, notSet, "is needed", "give it a name")
		return
	}
	if !plainName.MatchString(name) {
		v.wrong(key, shown(name), "is not a valid name", "use up to 63 letters, digits, and _ . - after the first")
		return
	}
	if i := slices.Index(earlier, name); i >= 0 {
		v.wrong(key, shown(name), fmt.Sprintf("is also the name of %s[%d]", list, i), "give each its own name")
	}
}

func (v validator) warnings() {
	for i, l := range v.config.Listeners {
		network, address := l.Network()
		host, _, _ := net.SplitHostPort(address)
		t := v.tenantNamed(v.config.ListenerTenant(l))
		if network == "tcp" && !loopback(host) && !l.Admin && t != nil && t.Open() {
			v.warn("listeners[%d].address: other machines can reach tenant %s, which has no password; give it users or listen on 127.0.0.1", i, t.Name)
		}
	}
	v.warnUnadvertised()
	for i, c := range v.config.Clusters {
		if c.TLS != nil && c.TLS.InsecureSkipVerify {
			v.warn("clusters[%d].tls.insecure_skip_verify: the nodes of %s are not verified; anyone on the way can read along", i, c.Name)
		}
		if !v.config.HasStore() && !slices.ContainsFunc(v.config.Tenants, func(t Tenant) bool { return t.Cluster == c.Name }) {
			v.warn("clusters[%d].name: no tenant uses cluster %s; remove it or name it in a tenant", i, c.Name)
		}
	}
}

func (v validator) warn(format string, args ...any) {
	v.config.Warnings = append(v.config.Warnings, fmt.Sprintf(format, args...))
}

func (v validator) tenantNamed(name string) *Tenant {
	i := slices.IndexFunc(v.config.Tenants, func(t Tenant) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &v.config.Tenants[i]
}
