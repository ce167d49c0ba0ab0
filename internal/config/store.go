package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
)

// StoreKind says where what operators register is kept.
type StoreKind string

// The kinds of stores.
const (
	storeAuto   StoreKind = "auto"   // a file in the data directory, or memory without one
	StoreMemory StoreKind = "memory" // gone with the process
	StoreBolt   StoreKind = "bbolt"  // a file
	StoreEtcd   StoreKind = "etcd"   // shared by a fleet
)

// Store is where what operators register through the admin API is kept.
type Store struct {
	Kind StoreKind `json:"kind" default:"auto" oneof:"auto memory bbolt etcd"`
	// Path is the file of kind bbolt.
	Path string `json:"path" default:""`
	Etcd Etcd   `json:"etcd"`
}

// Etcd says where etcd is and what it is told.
type Etcd struct {
	Endpoints []string `json:"endpoints"`
	Prefix    string   `json:"prefix" default:"/sluice/"`
	Username  string   `json:"username" default:""`
	// Password is what PasswordFile or PasswordEnv held.
	Password     Secret   `json:"-"`
	PasswordFile string   `json:"password_file" default:"" file:"true"`
	PasswordEnv  string   `json:"password_env" default:""`
	TLS          *EtcdTLS `json:"tls"`
}

// EtcdTLS is how etcd is recognised, and the proxy by it.
type EtcdTLS struct {
	CA         string `json:"ca" default:"" file:"true"`
	Cert       string `json:"cert" default:"" file:"true"`
	Key        string `json:"key" default:"" file:"true"`
	ServerName string `json:"server_name" default:""`
}

// Secrets is the key that passwords of registered clusters are encrypted with.
type Secrets struct {
	KeyFile string `json:"key_file" default:"" file:"true"`
	KeyEnv  string `json:"key_env" default:""`
	// Key is what KeyFile or KeyEnv held.
	Key Secret `json:"-"`
}

// HasStore says that clusters and tenants may come from a store that was asked for.
func (c *Config) HasStore() bool { return c.DataDir != "" || c.Store.named() }

func (s Store) named() bool { return s.Kind != "" && s.Kind != storeAuto }

// StoreKind is the kind of store in force.
func (c *Config) StoreKind() StoreKind {
	switch {
	case c.Store.named():
		return c.Store.Kind
	case c.DataDir != "":
		return StoreBolt
	}
	return StoreMemory
}

// StorePath is the file of a store of kind bbolt.
func (c *Config) StorePath() string {
	if c.Store.Path != "" {
		return c.Store.Path
	}
	return filepath.Join(c.DataDir, "store.db")
}

// ClientListeners are the listeners for clients.
func (c *Config) ClientListeners() []Listener { return listenersWhere(c.Listeners, false) }

// AdminListeners are the listeners for PROXY commands.
func (c *Config) AdminListeners() []Listener { return listenersWhere(c.Listeners, true) }

// Operated says that there is a port for operators.
func (c *Config) Operated() bool { return !c.Admin.Off() || len(c.AdminListeners()) > 0 }

func listenersWhere(all []Listener, admin bool) (some []Listener) {
	for _, l := range all {
		if l.Admin == admin {
			some = append(some, l)
		}
	}
	return some
}

// namesStore reports whether the tree asks for a store.
func namesStore(tree map[string]any) bool {
	if text, ok := tree["data_dir"].(string); ok && text != "" {
		return true
	}
	store, _ := tree["store"].(map[string]any)
	return store["kind"] != nil && store["kind"] != string(storeAuto)
}

// store checks where what is registered is kept, and makes its paths absolute.
func (v validator) store() {
	c := v.config
	v.absolute("data_dir", &c.DataDir)
	v.absolute("store.path", &c.Store.Path)
	if !v.sound("store") {
		return
	}
	switch kind := c.StoreKind(); {
	case kind != StoreBolt && c.Store.Path != "":
		v.warn("store.path: has no effect: it is for a store of kind bbolt, and this one's kind is %s", kind)
	case kind == StoreBolt && c.Store.Path == "" && c.DataDir == "":
		v.wrong("store.path", notSet, "is needed: the store is a file", "set it, or data_dir")
	}
	v.etcd("store.etcd.", &c.Store.Etcd)
}

// absolute makes a path of the file start where the file is, and one of a flag or variable where the process was started.
func (v validator) absolute(key string, path *string) {
	if *path == "" || !v.sound(key) {
		return
	}
	if !filepath.IsAbs(*path) && v.origins[key] == "" {
		*path = filepath.Join(v.directory, *path)
	}
	if absolute, err := filepath.Abs(*path); err == nil {
		*path = absolute
	}
}

func (v validator) etcd(key string, e *Etcd) {
	if v.config.Store.Kind != StoreEtcd {
		if len(e.Endpoints) > 0 {
			v.wrong(key+"endpoints", shown(e.Endpoints[0]), "is for a store of kind etcd", "remove it, or set store.kind: etcd")
		}
		return
	}
	if len(e.Endpoints) == 0 {
		v.wrong(key+"endpoints", notSet, "is needed", "write a list such as [https://etcd-1:2379]")
	}
	for i, endpoint := range e.Endpoints {
		v.endpoint(fmt.Sprintf("%sendpoints[%d]", key, i), endpoint, e.TLS != nil)
	}
	switch v.onlySource(key, []secretSource{{"password_file", e.PasswordFile}, {"password_env", e.PasswordEnv}}) {
	case "password_file":
		e.Password = v.secretFromFile(key+"password_file", &e.PasswordFile)
	case "password_env":
		e.Password = v.secretFromVariable(key+"password_env", e.PasswordEnv)
	case "":
		if e.Username != "" {
			v.wrong(key+"username", shown(e.Username), "has no password", "add password_file or password_env")
		}
	}
	if e.TLS != nil {
		v.etcdTLS(key+"tls.", e.TLS)
	}
}

func (v validator) endpoint(key, endpoint string, secure bool) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" || u.User != nil {
		v.wrong(key, notShown, "is not the URL of an etcd member", "write https://host:port or http://host:port")
		return
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		v.wrong(key, shown(endpoint), "has no port", "write https://host:port or http://host:port")
		return
	}
	if secure && u.Scheme == "http" {
		v.wrong(key, shown(endpoint), "is not encrypted, although store.etcd.tls is given", "write https://, or remove tls")
	}
}

func (v validator) etcdTLS(key string, t *EtcdTLS) {
	if (t.Cert == "") != (t.Key == "") {
		missing := map[bool]string{true: "cert", false: "key"}[t.Cert == ""]
		v.wrong(key+missing, notSet, "is needed: a client certificate is a pair of cert and key", "name the other file, or remove both")
	}
	files := v.newFiles()
	files.pair(key, &t.Cert, &t.Key)
	files.authorities(key+"ca", &t.CA)
}

func (v validator) secretKey() {
	const key = "secrets."
	s := &v.config.Secrets
	switch v.onlySource(key, []secretSource{{"key_file", s.KeyFile}, {"key_env", s.KeyEnv}}) {
	case "key_file":
		s.Key = v.secretFromFile(key+"key_file", &s.KeyFile)
	case "key_env":
		s.Key = v.secretFromVariable(key+"key_env", s.KeyEnv)
	}
}

// adminListener checks a listener for PROXY commands.
func (v validator) adminListener(key string, l *Listener) {
	if !l.Admin {
		if l.Insecure {
			v.wrong(key+".insecure", "true", "is for listeners of operators", "remove it, or add admin: true")
		}
		return
	}
	network, address := l.Network()
	host, _, _ := net.SplitHostPort(address)
	switch {
	case l.Tenant != "":
		v.wrong(key+".tenant", shown(l.Tenant), "cannot be: the listener is for operators", "remove it, or admin: true")
	case network == "tcp" && !loopback(host) && l.TLS == nil && !l.Insecure:
		v.wrong(key+".address", shown(l.Address), "lets other machines reach a listener for operators, whose tokens would not be encrypted",
			"use 127.0.0.1, give it tls, or set insecure: true if the network keeps strangers away")
	case len(l.Advertise) > 0:
		v.wrong(key+".advertise", shown(l.Advertise[0]), "cannot be: the listener is for operators", "remove it, or admin: true")
	case !slices.ContainsFunc(v.config.Listeners, func(other Listener) bool { return !other.Admin }):
		v.wrong(key+".admin", "true", "leaves no listener for clients", "add one without admin")
	}
}
