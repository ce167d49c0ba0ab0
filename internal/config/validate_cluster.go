package config

import (
	"fmt"
	"slices"
	"strings"
)

func (v validator) clusters() {
	if len(v.config.Clusters) == 0 && v.sound("clusters") && !v.config.HasStore() {
		v.wrong("clusters", notSet, "is needed: there is no backend", "add one, such as {name: main, addresses: [127.0.0.1:6379]}")
	}
	var names []string
	for i := range v.config.Clusters {
		c, key := &v.config.Clusters[i], fmt.Sprintf("clusters[%d].", i)
		v.name(key+"name", c.Name, names, "clusters")
		names = append(names, c.Name)
		v.addresses(key, c)
		v.auth(key+"auth.", c)
		if c.TLS != nil {
			v.clusterTLS(key+"tls.", c)
		}
	}
}

func (v validator) addresses(key string, c *Cluster) {
	at := key + "addresses"
	if !v.sound(at) || !v.sound(key+"kind") {
		return
	}
	switch {
	case c.Kind == EmbeddedKind:
		if len(c.Addresses) > 0 {
			v.wrong(at, shown(c.Addresses), "are given for a cluster of kind embedded, which has none", "remove them, or use kind standalone or cluster")
		}
		return
	case len(c.Addresses) == 0:
		v.wrong(at, notSet, "is needed: there is no node to connect to", "write a list such as [127.0.0.1:6379]")
	case c.Kind == Standalone && len(c.Addresses) > 1:
		v.wrong(at, shown(c.Addresses), fmt.Sprintf("has %d addresses and kind standalone is one node", len(c.Addresses)), "name one, or use kind: cluster")
	}
	for i, address := range c.Addresses {
		where := fmt.Sprintf("%s[%d]", at, i)
		v.address(where, address, false)
		if slices.Contains(c.Addresses[:i], address) {
			v.wrong(where, shown(address), "is there twice", "remove one of them")
		}
	}
}

func (v validator) auth(key string, c *Cluster) {
	a := &c.Auth
	if c.Kind == EmbeddedKind {
		if *a != (Auth{}) {
			v.wrong(strings.TrimSuffix(key, "."), "{…}", "is for a backend and kind embedded has no password", "remove it")
		}
		return
	}
	sources := []secretSource{{"password", a.Password.String()}, {"password_file", a.PasswordFile}, {"password_env", a.PasswordEnv}}
	switch v.onlySource(key, sources) {
	case "password_file":
		a.Password = v.secretFromFile(key+"password_file", &a.PasswordFile)
	case "password_env":
		a.Password = v.secretFromVariable(key+"password_env", a.PasswordEnv)
	case "":
		if a.Username != "" && v.sound(strings.TrimSuffix(key, ".")) {
			v.wrong(key+"username", shown(a.Username), "has no password", "add password_file, password_env or password")
		}
	}
}

func (v validator) clusterTLS(key string, c *Cluster) {
	t := c.TLS
	if c.Kind == EmbeddedKind {
		v.wrong(strings.TrimSuffix(key, "."), "{…}", "is for a backend and kind embedded has no connections", "remove it")
		return
	}
	if (t.Cert == "") != (t.Key == "") {
		missing := map[bool]string{true: "cert", false: "key"}[t.Cert == ""]
		v.wrong(key+missing, notSet, "is needed: a client certificate is a pair of cert and key", "name the other file, or remove both")
	}
	if t.InsecureSkipVerify && t.CA != "" {
		v.wrong(key+"insecure_skip_verify", "true", "makes "+key+"ca useless", "remove one of them")
	}
	files := v.newFiles()
	files.pair(key, &t.Cert, &t.Key)
	files.authorities(key+"ca", &t.CA)
	t.Digest = files.digest()
	if !t.Enabled {
		v.warn("%senabled: is false: the connections to cluster %s are not encrypted", key, c.Name)
	}
}
