package redistest

// Option changes how Standalone and Cluster start their servers.
type Option func(*options)

type options struct {
	password string
	users    []string // ACL lines without the word "user"
	tls      *TLSFiles
	socket   bool
	args     []string
	config   []string
}

// WithPassword sets the default user's password; replicas and cluster nodes use it too.
func WithPassword(password string) Option {
	return func(o *options) { o.password = password }
}

// WithUser adds an ACL user; rules is for example "~app:* +@all -@admin".
func WithUser(name, password, rules string) Option {
	return func(o *options) {
		o.users = append(o.users, name+" on >"+password+" "+rules)
	}
}

// WithTLS makes the server's port speak TLS and nothing else. A client
// certificate is asked for and not demanded; WithConfig("tls-auth-clients yes")
// demands it.
func WithTLS(files *TLSFiles) Option {
	return func(o *options) { o.tls = files }
}

// WithUnixSocket lets the server also listen on Server.SocketPath.
func WithUnixSocket() Option {
	return func(o *options) { o.socket = true }
}

// WithArgs appends arguments to the command line.
func WithArgs(args ...string) Option {
	return func(o *options) { o.args = append(o.args, args...) }
}

// WithConfig appends lines to redis.conf; a later line wins over an earlier one
// and over this package's own.
func WithConfig(lines ...string) Option {
	return func(o *options) { o.config = append(o.config, lines...) }
}

func gather(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
