// Package api is Sluice's admin API, version 1: its types, as JSON carries them, and a Go client. The server describes the
// same types as OpenAPI 3.1 at /api/v1/openapi.json.
package api

import "time"

// Kind names what can be registered.
type Kind string

// The kinds, as documents name them.
const (
	KindCluster Kind = "Cluster"
	KindTenant  Kind = "Tenant"
	KindUser    Kind = "User"
	KindToken   Kind = "Token"
)

// Source tells where an entity is declared. What the configuration file declares cannot be changed through the API.
type Source string

// The sources.
const (
	SourceFile  Source = "file"
	SourceStore Source = "store"
)

// Meta is what the proxy knows of an entity beside what was asked for. It is ignored in requests.
type Meta struct {
	Source Source `json:"source" enum:"file,store" doc:"Where the entity is declared; what the file declares cannot be changed here."`
	// Version counts the entity's versions, from 1; its ETag is the quoted version.
	Version   int       `json:"version" doc:"Number of this version, from 1; 0 for entities of the file."`
	CreatedAt time.Time `json:"created_at,omitzero" doc:"When the first version was written."`
	UpdatedAt time.Time `json:"updated_at,omitzero" doc:"When this version was written."`
	UpdatedBy string    `json:"updated_by,omitempty" doc:"Name of the token that wrote this version."`
}

// Cluster is a set of backend nodes that serves one keyspace.
type Cluster struct {
	Name            string       `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$" doc:"What tenants, logs and metrics call it."`
	ClusterKind     string       `json:"kind,omitempty" enum:"standalone,cluster" default:"standalone" doc:"standalone: one node with every key. cluster: Redis Cluster."`
	Addresses       []string     `json:"addresses" minItems:"1" maxItems:"100" doc:"host:port of the node, or of some nodes of a Redis Cluster."`
	Auth            *ClusterAuth `json:"auth,omitempty" doc:"What the nodes are told."`
	TLS             *ClusterTLS  `json:"tls,omitempty" doc:"TLS to the nodes; absent: plain TCP."`
	ConnectTimeout  Duration     `json:"connect_timeout,omitempty" doc:"Bounds dialling, TLS and handshake together. Default 2s."`
	RefreshInterval Duration     `json:"refresh_interval,omitempty" doc:"Time between two looks at the topology. Default 30s."`
	Meta            *Meta        `json:"meta,omitempty" readOnly:"true"`
}

// ClusterAuth is how the proxy introduces itself to the nodes.
type ClusterAuth struct {
	Username string `json:"username,omitempty" maxLength:"256" doc:"ACL user."`
	// Password is written and never read back.
	Password    string `json:"password,omitempty" maxLength:"4096" writeOnly:"true" doc:"Kept encrypted; never shown. Absent in a change: the password stays."`
	HasPassword bool   `json:"has_password,omitempty" readOnly:"true" doc:"Whether a password is kept."`
}

// ClusterTLS makes the connections to the nodes TLS. Files are on the proxy's machine.
type ClusterTLS struct {
	CA                 string `json:"ca,omitempty" doc:"File of certificate authorities; absent: the system's."`
	Cert               string `json:"cert,omitempty" doc:"File of the client certificate."`
	Key                string `json:"key,omitempty" doc:"File of its key."`
	ServerName         string `json:"server_name,omitempty" doc:"Name in the nodes' certificates; absent: the host dialled."`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty" doc:"Take any certificate."`
}

// Tenant is one isolated customer.
type Tenant struct {
	Name           string   `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$" doc:"What operators, logs and metrics call it."`
	Cluster        string   `json:"cluster" minLength:"1" doc:"Name of the cluster that holds its data."`
	Databases      []int    `json:"databases,omitempty" doc:"Databases it may use; the first is where sessions start. Default [0]."`
	Open           bool     `json:"open,omitempty" doc:"Clients need no password. Otherwise nobody can be the tenant before it has a user."`
	CrossSlot      string   `json:"cross_slot,omitempty" enum:"split,error" doc:"What becomes of a command whose keys are in several slots. Default split."`
	Frontend       string   `json:"frontend,omitempty" enum:"standalone,cluster" doc:"What its clients see. Default standalone."`
	Trusted        bool     `json:"trusted,omitempty" doc:"Administrative commands reach the backend; the tenant must be alone on a standalone cluster."`
	AdminModules   bool     `json:"admin_modules,omitempty" doc:"Commands of modules that the backend flags as administrative are passed through."`
	NoScripts      bool     `json:"no_scripts,omitempty" doc:"Scripts and functions are refused: within them a server applies none of what keeps tenants apart."`
	ConnectTimeout Duration `json:"connect_timeout,omitempty" doc:"How long a command waits for a connection. Default: the cluster's."`
	CommandTimeout Duration `json:"command_timeout,omitempty" doc:"How long a command may take. Default 5s."`
	Meta           *Meta    `json:"meta,omitempty" readOnly:"true"`
}

// User is a name that a tenant's clients authenticate with. Names are unique over all tenants.
type User struct {
	Tenant string `json:"tenant" readOnly:"true" doc:"The tenant that it belongs to."`
	Name   string `json:"name" minLength:"1" maxLength:"256" doc:"The name in AUTH."`
	// Exactly one of the three is written; none is read back.
	Password string `json:"password,omitempty" maxLength:"4096" writeOnly:"true" doc:"Hashed before it is kept; never shown."`
	SHA256   string `json:"sha256,omitempty" pattern:"^[0-9a-fA-F]{64}$" writeOnly:"true" doc:"SHA-256 of the password, in hexadecimal digits."`
	Argon2id string `json:"argon2id,omitempty" maxLength:"512" writeOnly:"true" doc:"argon2id hash of the password in PHC form."`
	Meta     *Meta  `json:"meta,omitempty" readOnly:"true"`
}

// Role is what a token may do.
type Role string

// The roles. Each may do what the one before may.
const (
	RoleViewer   Role = "viewer"   // read
	RoleOperator Role = "operator" // act: kill sessions, pause, drain, refresh, test
	RoleAdmin    Role = "admin"    // change clusters, tenants, users and tokens
)

// Token is a bearer token of the admin API. The secret itself is in the answer to its creation and nowhere else.
type Token struct {
	Name    string    `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9][A-Za-z0-9_.-]*$" doc:"What audit and history call it."`
	Role    Role      `json:"role" enum:"viewer,operator,admin" doc:"viewer reads; operator also acts; admin also changes."`
	Tenants []string  `json:"tenants,omitempty" doc:"The only tenants that it may see and change; absent: all."`
	Expires time.Time `json:"expires,omitzero" doc:"When it ends; absent: never."`
	// Secret is in the answer to a creation only.
	Secret string `json:"secret,omitempty" readOnly:"true" doc:"The bearer token; shown once."`
	Meta   *Meta  `json:"meta,omitempty" readOnly:"true"`
}

// Change is one version of an entity in its history.
type Change struct {
	Version int       `json:"version" doc:"The version that the change made."`
	At      time.Time `json:"at" doc:"When."`
	By      string    `json:"by" doc:"Name of the token."`
	From    string    `json:"from" doc:"Address of the client."`
	Action  string    `json:"action" enum:"create,update,delete,rollback" doc:"What was done."`
	Reason  string    `json:"reason,omitempty" doc:"Why, as the client said."`
	Diff    []Edit    `json:"diff" doc:"What differs from the version before; secrets are named, not shown."`
}

// Edit is one difference.
type Edit struct {
	Field string `json:"field" doc:"Path of the field, such as auth.username."`
	Old   any    `json:"old,omitempty" doc:"Value before; absent: none."`
	New   any    `json:"new,omitempty" doc:"Value after; absent: none."`
}

// Plan is the answer to a write with dryRun=true: what would happen.
type Plan struct {
	Action string `json:"action" enum:"create,update,delete,rollback,none"`
	Diff   []Edit `json:"diff"`
	// Sessions is how many connected clients the change would touch.
	Sessions int      `json:"sessions"`
	Effects  []string `json:"effects" doc:"What would become of them and of connections, in words."`
}

// Page is a part of a list.
type Page[T any] struct {
	Items []T    `json:"items"`
	Total int    `json:"total" doc:"Items that match, on all pages."`
	Next  string `json:"next,omitempty" doc:"Pass as ?page= for the next page; absent: this is the last."`
}

// Session is one connected client.
type Session struct {
	ID          uint64    `json:"id"`
	Tenant      string    `json:"tenant,omitempty"`
	User        string    `json:"user,omitempty"`
	Address     string    `json:"address" doc:"Of the client."`
	Listener    string    `json:"listener"`
	Name        string    `json:"name,omitempty" doc:"CLIENT SETNAME."`
	Library     string    `json:"library,omitempty"`
	Protocol    int       `json:"protocol" doc:"2 or 3."`
	Database    int       `json:"database"`
	Loop        int       `json:"loop"`
	Connected   time.Time `json:"connected"`
	IdleSeconds float64   `json:"idle_seconds"`
	LastCommand string    `json:"last_command,omitempty"`
	Pinned      string    `json:"pinned,omitempty" doc:"Why it has a connection of its own; absent: it has none."`
	Inflight    int       `json:"inflight" doc:"Commands without a reply."`
	Unread      int       `json:"unread_bytes" doc:"Bytes of replies that it has not taken."`
}

// Node is one backend node as the proxy sees it. Its address is shown to operators only.
type Node struct {
	Cluster    string  `json:"cluster"`
	Alias      string  `json:"alias" doc:"As in logs and metrics, such as shard-0/primary."`
	Address    string  `json:"address"`
	Role       string  `json:"role" enum:"primary,replica"`
	Healthy    bool    `json:"healthy" doc:"Whether the cluster and the proxy hold it to be up."`
	Slots      int     `json:"slots"`
	Pipes      int     `json:"pipes"`
	Dedicated  int     `json:"dedicated" doc:"Connections lent to sessions."`
	Idle       int     `json:"idle" doc:"Dedicated connections kept for later."`
	Waiting    int     `json:"waiting" doc:"Sessions that wait for a dedicated connection."`
	Inflight   int     `json:"inflight"`
	QueueDelay float64 `json:"queue_delay_seconds"`
	Errors     uint64  `json:"errors_total"`
}

// SlotRange is slots that one shard serves, both ends included.
type SlotRange struct {
	First int    `json:"first"`
	Last  int    `json:"last"`
	Shard string `json:"shard"`
}

// Topology is a cluster's map as the proxy sees it.
type Topology struct {
	Cluster string      `json:"cluster"`
	Kind    string      `json:"kind"`
	Ready   bool        `json:"ready"`
	Reason  string      `json:"reason,omitempty" doc:"Why it is not ready."`
	Covered int         `json:"covered" doc:"Slots that some node serves, of 16384."`
	Epoch   uint64      `json:"epoch"`
	Nodes   []Node      `json:"nodes"`
	Slots   []SlotRange `json:"slots"`
}

// Explanation tells how a command of a tenant would be handled.
type Explanation struct {
	Tenant  string   `json:"tenant"`
	Command string   `json:"command"`
	Class   string   `json:"class"`
	Served  string   `json:"served" enum:"forward,local,split,fan-out,dedicated,admin,unknown" doc:"How the proxy serves it."`
	Keys    []string `json:"keys"`
	Slots   []int    `json:"slots"`
	Nodes   []string `json:"nodes" doc:"Aliases of the nodes it would go to."`
	Flags   []string `json:"flags"`
	Refused string   `json:"refused,omitempty" doc:"The error that a client would get; absent: it would be served."`
	Notes   []string `json:"notes" doc:"What decides, in words."`
}

// Status is the proxy at a glance.
type Status struct {
	Version   string      `json:"version"`
	StartedAt time.Time   `json:"started_at"`
	Ready     bool        `json:"ready"`
	NotReady  []string    `json:"not_ready"`
	Draining  bool        `json:"draining"`
	Clients   int         `json:"clients"`
	Loops     int         `json:"loops"`
	Tenants   int         `json:"tenants"`
	Clusters  int         `json:"clusters"`
	Paused    []string    `json:"paused" doc:"Tenants that are paused."`
	Store     StoreStatus `json:"store"`
	Listeners []string    `json:"listeners"`
}

// StoreStatus is how the store is.
type StoreStatus struct {
	Kind      string    `json:"kind" enum:"memory,bbolt,etcd"`
	Available bool      `json:"available"`
	Since     time.Time `json:"since,omitzero" doc:"When available became what it is; absent: it has always been so."`
	Reason    string    `json:"reason,omitempty"`
	Revision  int64     `json:"revision"`
	Applied   int64     `json:"applied" doc:"Revision that is in force on this proxy."`
}

// Stats are counters at one moment, for live views: rates are differences.
type Stats struct {
	At       time.Time      `json:"at"`
	Tenants  []TenantStats  `json:"tenants"`
	Nodes    []Node         `json:"nodes"`
	Commands []CommandStats `json:"commands"`
}

// TenantStats are one tenant's numbers.
type TenantStats struct {
	Name     string  `json:"name"`
	Clients  int     `json:"clients"`
	Commands uint64  `json:"commands_total"`
	Errors   uint64  `json:"errors_total"`
	P50      float64 `json:"p50_seconds"`
	P99      float64 `json:"p99_seconds"`
}

// CommandStats are the numbers of one class of commands, over all tenants.
type CommandStats struct {
	Class    string  `json:"class"`
	Commands uint64  `json:"commands_total"`
	Seconds  float64 `json:"seconds_total"`
}

// Problem is an error, as RFC 9457 has it.
type Problem struct {
	Type   string         `json:"type,omitempty"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitempty"`
	Errors []ProblemField `json:"errors,omitempty"`
}

// ProblemField is what is wrong with one field.
type ProblemField struct {
	Location string `json:"location" doc:"Path of the field, such as body.addresses[0]."`
	Message  string `json:"message" doc:"The rule, and what to do."`
	Value    any    `json:"value,omitempty"`
}

// TestResult is what an attempt to reach a cluster found.
type TestResult struct {
	OK      bool     `json:"ok"`
	Error   string   `json:"error,omitempty" doc:"What went wrong and what to look at."`
	Server  string   `json:"server,omitempty" doc:"Name and version that the nodes tell."`
	Nodes   int      `json:"nodes" doc:"Nodes found."`
	Covered int      `json:"covered" doc:"Slots covered; 16384 for a standalone node."`
	Seconds float64  `json:"seconds" doc:"How long it took."`
	Notes   []string `json:"notes" doc:"What an operator may want to know."`
}
