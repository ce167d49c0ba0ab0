package config

import (
	"fmt"
	"path"
	"strings"
)

func (v validator) listeners() {
	if len(v.config.Listeners) == 0 && v.sound("listeners") {
		v.wrong("listeners", "[]", "is empty: no client could connect", "add one, such as {address: 127.0.0.1:6380}")
	}
	for i := range v.config.Listeners {
		l, key := &v.config.Listeners[i], fmt.Sprintf("listeners[%d]", i)
		v.listenerAddress(key, i, l)
		v.adminListener(key, l)
		if l.Tenant != "" && v.sound("tenants") && !v.config.HasStore() && v.tenantNamed(l.Tenant) == nil {
			v.wrong(key+".tenant", shown(l.Tenant), "is not a configured tenant", v.suggestTenant(l.Tenant))
		}
		v.advertise(key, l)
		if l.TLS != nil {
			v.listenerTLS(key+".tls.", l)
		}
	}
}

func (v validator) listenerAddress(key string, i int, l *Listener) {
	at := key + ".address"
	if !v.sound(at) {
		return
	}
	network, address := l.Network()
	if network == "unix" {
		v.socketPath(at, address)
	} else if _, ok := v.address(at, address, true); ok && l.Mode != FileMode(defaultMode) {
		v.wrong(key+".mode", shown(l.Mode.String()), "is for a unix socket and the address is not one", "remove it")
	}
	for j, other := range v.config.Listeners[:i] {
		if other.Address == l.Address && !anyPort(l.Address) {
			v.wrong(at, shown(l.Address), fmt.Sprintf("is also listeners[%d].address", j), "remove one of them")
		}
	}
}

func (v validator) socketPath(key, socket string) {
	const longest = 100 // 107 on Linux, 103 on macOS
	switch {
	case !path.IsAbs(socket):
		v.wrong(key, shown(unixScheme+socket), "has no absolute path", "write unix:// and a path that begins with a slash: unix:///run/sluice.sock")
	case len(socket) > longest:
		v.wrong(key, shown(unixScheme+socket), "is too long a path for a socket", fmt.Sprintf("use at most %d bytes", longest))
	}
}

func (v validator) listenerTLS(key string, l *Listener) {
	if strings.HasPrefix(l.Address, unixScheme) {
		v.wrong(strings.TrimSuffix(key, "."), "{…}", "is for TCP and the address is a unix socket", "remove it")
		return
	}
	v.tlsFiles(key, "listener", l.TLS)
}

// tlsFiles checks the files that make a port, as whose names it, speak TLS.
func (v validator) tlsFiles(key, whose string, t *ListenerTLS) {
	for _, part := range []struct{ key, file string }{{"cert", t.Cert}, {"key", t.Key}} {
		if part.file == "" {
			v.wrong(key+part.key, notSet, "is needed", "name the file with the "+whose+"'s "+part.key+" in PEM form")
		}
	}
	files := v.newFiles()
	if t.Cert == "" && t.Key != "" {
		v.readKeyFile(key+"key", &t.Key)
	} else if t.Key == "" && t.Cert != "" {
		v.readKeyFile(key+"cert", &t.Cert)
	}
	files.pair(key, &t.Cert, &t.Key)
	files.authorities(key+"client_ca", &t.ClientCA)
	t.Digest = files.digest()
}

const defaultMode = 0o660
