package config

import (
	"fmt"
	"net"
	"slices"
)

// mostAdvertised bounds how many endpoints share the slots.
const mostAdvertised = 1024

// advertise checks what a listener tells clients in cluster mode.
func (v validator) advertise(key string, l *Listener) {
	at := key + ".advertise"
	if !v.sound(at) {
		return
	}
	if len(l.Advertise) > mostAdvertised {
		v.wrong(at, fmt.Sprint(len(l.Advertise), " addresses"), "is too many", fmt.Sprintf("use at most %d", mostAdvertised))
		return
	}
	for i, address := range l.Advertise {
		here := fmt.Sprintf("%s[%d]", at, i)
		host, ok := v.address(here, address, false)
		switch {
		case !ok:
		case unspecified(host):
			v.wrong(here, shown(address), "is no address that clients can connect to", "write the one that they use")
		case slices.Contains(l.Advertise[:i], address):
			v.wrong(here, shown(address), "is there twice", "remove one of them")
		}
	}
	switch self := l.AdvertiseSelf; {
	case self == "" || slices.Contains(l.Advertise, self):
	case len(l.Advertise) == 0:
		v.wrong(at+"_self", shown(self), "has no effect without advertise", "set advertise, or remove it")
	default:
		v.wrong(at+"_self", shown(self), "is not one of advertise", "write it as it stands there")
	}
}

func unspecified(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsUnspecified()
}

// frontend checks that a tenant can be served as a cluster.
func (v validator) frontend(key string, t *Tenant) {
	if t.Frontend == FrontCluster && v.sound(key+"databases") && len(t.Databases) > 1 {
		v.wrong(key+"databases", shown(t.Databases), "is more than one, and a tenant with frontend: cluster has one alone", "keep one of them; clients see it as database 0")
	}
}

// warnUnadvertised finds sockets whose clients cannot be told where the cluster's nodes are.
func (v validator) warnUnadvertised() {
	for i, l := range v.config.Listeners {
		network, _ := l.Network()
		t := v.tenantNamed(v.config.ListenerTenant(l))
		if network == "unix" && !l.Admin && len(l.Advertise) == 0 && t != nil && t.Frontend == FrontCluster {
			v.warn("listeners[%d].advertise: clients of tenant %s on this socket cannot be told of the cluster's nodes; name TCP addresses", i, t.Name)
		}
	}
}
