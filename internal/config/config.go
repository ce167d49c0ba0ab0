// Package config reads the daemon's configuration from a file, environment
// variables and flags into one validated Config of plain data.
//
// A setting is looked up in this order; the first that gives it wins: flag,
// environment variable, file, default. Keys are written in lower case with
// underscores and are matched in any case. A key whose value is null counts as
// not given.
package config

import (
	"strings"
	"time"
)

// Config is the whole configuration, validated: what Load returns can be built
// without another look at files or environment. It is plain data, not changed
// after Load.
//
// The json tag is the key; default, min, max, oneof and secret describe its value.
type Config struct {
	Listeners       []Listener    `json:"listeners"`
	Admin           Admin         `json:"admin"`
	Log             Log           `json:"log"`
	Loops           int           `json:"loops" default:"0" min:"0" max:"1024"`
	Clients         Clients       `json:"clients"`
	DrainTimeout    time.Duration `json:"drain_timeout" default:"30s" min:"0s" max:"24h"`
	Pipes           Pipes         `json:"pipes"`
	Slowlog         Slowlog       `json:"slowlog"`
	Dedicated       Dedicated     `json:"dedicated"`
	StreamThreshold ByteSize      `json:"stream_threshold" default:"256KiB" min:"16KiB" max:"512MiB"`
	DataDir         string        `json:"data_dir" default:""`
	Store           Store         `json:"store"`
	Secrets         Secrets       `json:"secrets"`
	Clusters        []Cluster     `json:"clusters"`
	Tenants         []Tenant      `json:"tenants"`

	// Source is the file that was read, or says that there was none.
	Source string `json:"-"`
	// Warnings tell what is allowed and yet probably not meant; for the log.
	Warnings []string `json:"-"`
}

// Listener is one address that clients connect to.
type Listener struct {
	Address string `json:"address"`
	Tenant  string `json:"tenant"`
	// Admin makes it a listener for PROXY commands of operators, instead of one for clients.
	Admin bool `json:"admin" default:"false"`
	// Insecure lets other machines reach a listener of operators that has no TLS.
	Insecure bool         `json:"insecure" default:"false"`
	TLS      *ListenerTLS `json:"tls"`
	Mode     FileMode     `json:"mode" default:"0660"`
	// Advertise is what clients of tenants with frontend cluster are told to connect to, AdvertiseSelf the one of them
	// that is this process.
	Advertise     []string `json:"advertise"`
	AdvertiseSelf string   `json:"advertise_self" default:""`
}

// Network splits the address as net.Listen wants it: "unix" and a path, or
// "tcp" and host:port.
func (l Listener) Network() (network, address string) {
	if path, ok := strings.CutPrefix(l.Address, unixScheme); ok {
		return "unix", path
	}
	return "tcp", l.Address
}

// ListenerTLS makes a listener speak TLS. Clients must present a certificate
// when ClientCA is set.
type ListenerTLS struct {
	Cert     string `json:"cert" default:"" file:"true"`
	Key      string `json:"key" default:"" file:"true"`
	ClientCA string `json:"client_ca" default:"" file:"true"`
	// Digest is the SHA-256 of the files' content, so that Diff sees a renewed certificate.
	Digest string `json:"-"`
}

// Admin is the HTTP port for health, metrics, profiles and the admin API.
type Admin struct {
	Address  string `json:"address" default:"127.0.0.1:8380"`
	PProf    bool   `json:"pprof" default:"false"`
	Insecure bool   `json:"insecure" default:"false"`
	// TLS makes the port HTTPS.
	TLS *ListenerTLS `json:"tls"`
	// Audit is off, stdout, or a file that a line is added to for every write through the API.
	Audit string `json:"audit" default:"stdout"`
	// Tokens are bearer tokens of the API, beside those of the store.
	Tokens []AdminToken `json:"tokens"`
}

// AdminToken is a bearer token of the admin API.
type AdminToken struct {
	Name string `json:"name"`
	Role string `json:"role" oneof:"viewer operator admin"`
	// Tenants are the only ones that it may see and change; none: all.
	Tenants []string `json:"tenants"`
	// SHA256 is that of the token's text, wherever it came from, in lower-case hexadecimal digits.
	SHA256    Secret `json:"sha256" default:""`
	TokenFile string `json:"token_file" default:"" file:"true"`
	TokenEnv  string `json:"token_env" default:""`
}

// Off says that there is no admin port.
func (a Admin) Off() bool { return a.Address == off }

// Log says what is logged and how.
type Log struct {
	Level  string `json:"level" default:"info" oneof:"debug info warn error"`
	Format string `json:"format" default:"console" oneof:"console json"`
}

// Clients bounds what clients may take from the process.
type Clients struct {
	Max          int           `json:"max" default:"10000" min:"1" max:"10000000"`
	IdleTimeout  time.Duration `json:"idle_timeout" default:"0s" min:"0s"`
	TCPKeepalive time.Duration `json:"tcp_keepalive" default:"300s" min:"0s"`
	OutputBuffer ByteSize      `json:"output_buffer" default:"32MiB" min:"64KiB" max:"16GiB"`
	GatherBuffer ByteSize      `json:"gather_buffer" default:"256MiB" min:"1MiB" max:"1024GiB"`
	MaxInflight  int           `json:"max_inflight" default:"1024" min:"1" max:"1000000"`
	MonitorRate  int           `json:"monitor_rate" default:"10000" min:"1" max:"1000000"`
	MoveTimeout  time.Duration `json:"move_timeout" default:"30s" min:"1ms" max:"24h"`
}

// Slowlog says which commands each tenant's slow log keeps.
type Slowlog struct {
	Threshold time.Duration `json:"threshold" default:"10ms" min:"0s" max:"24h"`
	MaxLen    int           `json:"max_len" default:"128" min:"0" max:"100000"`
}

// Pipes bounds the shared connections to the nodes, per loop and node.
type Pipes struct {
	Max         int           `json:"max" default:"4" min:"1" max:"256"`
	GrowDelay   time.Duration `json:"grow_delay" default:"1ms" min:"1us" max:"10s"`
	IdleTimeout time.Duration `json:"idle_timeout" default:"60s" min:"1s"`
	MaxInflight int           `json:"max_inflight" default:"16384" min:"1" max:"10000000"`
	Window      time.Duration `json:"window" default:"0s" min:"0s" max:"1s"`
	Limit       int           `json:"limit" default:"0" min:"0" max:"10000000"`
}

// Dedicated bounds the connections that are lent to single sessions, per loop and node.
type Dedicated struct {
	Min         int           `json:"min" default:"0" min:"0" max:"100000"`
	Max         int           `json:"max" default:"4096" min:"1" max:"100000"`
	Wait        time.Duration `json:"wait" default:"1s" min:"1ms" max:"1h"`
	IdleTimeout time.Duration `json:"idle_timeout" default:"10s" min:"100ms" max:"24h"`
}

// Cluster is a set of backend nodes that serves one keyspace.
type Cluster struct {
	Name            string        `json:"name"`
	Kind            ClusterKind   `json:"kind" default:"standalone" oneof:"standalone cluster embedded"`
	Addresses       []string      `json:"addresses"`
	Auth            Auth          `json:"auth"`
	TLS             *ClusterTLS   `json:"tls"`
	ConnectTimeout  time.Duration `json:"connect_timeout" default:"2s" min:"1ms" max:"10m"`
	RefreshInterval time.Duration `json:"refresh_interval" default:"30s" min:"100ms" max:"24h"`
}

// ClusterKind says how a cluster's nodes are found.
type ClusterKind string

// The kinds of clusters.
const (
	Standalone   ClusterKind = "standalone" // one node that holds every key
	RedisCluster ClusterKind = "cluster"    // Redis Cluster: the nodes tell who has which slot
	EmbeddedKind ClusterKind = "embedded"   // a miniredis inside the daemon, in memory only
)

// Auth is how the daemon introduces itself to a cluster's nodes.
type Auth struct {
	Username string `json:"username" default:""`
	// Password is what the nodes are told, wherever it came from.
	Password     Secret `json:"password" default:""`
	PasswordFile string `json:"password_file" default:"" file:"true"`
	PasswordEnv  string `json:"password_env" default:""`
}

// ClusterTLS makes the connections to a cluster's nodes TLS.
type ClusterTLS struct {
	Enabled            bool   `json:"enabled" default:"true"`
	CA                 string `json:"ca" default:"" file:"true"`
	Cert               string `json:"cert" default:"" file:"true"`
	Key                string `json:"key" default:"" file:"true"`
	ServerName         string `json:"server_name" default:""`
	InsecureSkipVerify bool   `json:"insecure_skip_verify" default:"false"`
	// Digest is the SHA-256 of the files' content, so that Diff sees a renewed certificate.
	Digest string `json:"-"`
}

// Tenant is one isolated customer.
type Tenant struct {
	Name           string        `json:"name"`
	Cluster        string        `json:"cluster"`
	Databases      []int         `json:"databases" default:"0"`
	CrossSlot      string        `json:"cross_slot" default:"split" oneof:"split error"`
	Frontend       string        `json:"frontend" default:"standalone" oneof:"standalone cluster"`
	ConnectTimeout time.Duration `json:"connect_timeout" default:"0s" min:"0s" max:"10m"`
	CommandTimeout time.Duration `json:"command_timeout" default:"5s" min:"1ms" max:"24h"`
	// Trusted says that the tenant owns its backend: commands about the backend's operation are passed through.
	Trusted bool `json:"trusted" default:"false"`
	// AdminModules passes commands of modules through that the backend flags as administrative.
	AdminModules bool `json:"admin_modules" default:"false"`
	// NoScripts refuses EVAL, FCALL and what belongs to them.
	NoScripts bool   `json:"no_scripts" default:"false"`
	Users     []User `json:"users"`
	// Closed says that nobody can be the tenant before it has a user.
	Closed bool `json:"-"`
}

// FrontCluster is the value of frontend that serves a tenant as a Redis Cluster.
const FrontCluster = "cluster"

// Open says that the tenant's clients need no password.
func (t Tenant) Open() bool { return len(t.Users) == 0 && !t.Closed }

// User is a name that clients authenticate with. Exactly one of SHA256,
// Argon2id and Password is set after Load.
type User struct {
	Name         string `json:"name"`
	SHA256       Secret `json:"sha256" default:""`
	Argon2id     Secret `json:"argon2id" default:""`
	PasswordFile string `json:"password_file" default:"" file:"true"`
	PasswordEnv  string `json:"password_env" default:""`
	// Password is what PasswordFile or PasswordEnv held.
	Password Secret `json:"-"`
}

// ListenerTenant names the tenant that a listener's clients belong to: the one
// it names, or the only tenant when that needs no password, or "" when clients
// say by AUTH whose they are.
func (c Config) ListenerTenant(l Listener) string {
	if l.Tenant == "" && len(c.Tenants) == 1 && c.Tenants[0].Open() {
		return c.Tenants[0].Name
	}
	return l.Tenant
}

const (
	unixScheme = "unix://"
	off        = "off"
	// defaultListen is where clients are taken when no listener is configured.
	defaultListen = "127.0.0.1:6380"
)
