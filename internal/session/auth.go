package session

import (
	"strings"
	"sync/atomic"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

const (
	// authParallel bounds the password checks that run at once off the loops: argon2id takes tens of MiB each.
	authParallel = 2
	// authWaiting bounds the checks that wait for their turn: a pool of connections that log in together is served, a
	// flood is refused.
	authWaiting = 1024
)

// passwordCheck is a check under way off the loops.
type passwordCheck struct {
	// abandoned is set by the session's loop when the client is gone: the check is not worth its time then.
	abandoned atomic.Bool
}

// auth handles AUTH [user] password.
func (s *Session) auth(args [][]byte) {
	if len(args) > 3 {
		s.appendError(errSyntax)
		return
	}
	user, password := tenant.DefaultUser, args[len(args)-1]
	if len(args) == 3 {
		user = string(args[1])
	} else if s.tenant != nil && s.tenant.Open() {
		s.appendError(errNoPassword)
		return
	}
	s.authenticate(user, password, func() []byte { return replyOK })
}

// authenticate checks a password, off the loop when that takes long, and answers the command with what answer gives when it
// is right. Nothing else of the session runs meanwhile.
func (s *Session) authenticate(user string, password []byte, answer func() []byte) {
	w := s.worker
	registry := w.snapshot().Registry
	bound := registry.ForListener(s.bound)
	if bound == nil && s.bound != "" {
		bound = &tenant.Tenant{Name: s.bound, Closed: true} // not registered, or no longer: nobody else may come in here
	}
	if !registry.Slow(user) {
		t, u, err := registry.AuthenticateFor(bound, user, password)
		s.replyLocal(s.authenticated(t, u, err, answer))
		return
	}
	if w.shared.checks.Add(1) > authWaiting {
		w.shared.checks.Add(-1)
		s.appendError(errAuthBusy)
		return
	}
	p := s.newLocal()
	p.others++
	s.barrier = true
	check := &passwordCheck{}
	s.check = check
	secret := append([]byte(nil), password...)
	w.shared.checking.Go(func() { // ends with the check, for which a bounded number of others is ahead; the loop waits for nothing
		w.shared.auth <- struct{}{}
		var t *tenant.Tenant
		var u *tenant.User
		err := tenant.ErrWrongPass
		if !check.abandoned.Load() {
			t, u, err = registry.AuthenticateFor(bound, user, secret)
		}
		<-w.shared.auth
		w.shared.checks.Add(-1)
		w.Loop.Post(func() {
			if p.session != nil {
				s.check = nil
				p.complete(s.authenticated(t, u, err, answer))
				return
			}
			p.complete(nil)
		})
	})
}

// authenticated makes the session the user's, unless err, and gives the answer.
func (s *Session) authenticated(t *tenant.Tenant, user *tenant.User, err error, answer func() []byte) []byte {
	if err != nil {
		s.worker.Stats.AuthFailures++
		return appendError(nil, errWrongPass)
	}
	if current := s.worker.snapshot().Registry.Tenant(t.Name); current != t {
		s.worker.Stats.AuthFailures++
		return appendError(nil, errWrongPass) // removed while the password was being checked
	}
	if s.pinned != nil || s.executing != nil {
		if s.tenant.Name != t.Name {
			return appendError(nil, errAuthElsewhere)
		}
		s.user = user // and no more: what is under way is on the tenant's cluster
		return answer()
	}
	if s.tenant != nil && s.tenant.Name != t.Name {
		s.leaveChannels()
		s.stopMonitor()
		s.dropTracking()
		s.leaveTrackers()
	}
	s.become(t, user)
	return answer()
}

// hello handles HELLO [version [AUTH user password] [SETNAME name]].
func (s *Session) hello(args [][]byte) {
	wanted, problem := parseHello(args)
	if wanted.version == 0 {
		wanted.version = s.protocol
	}
	switch {
	case problem != "":
		s.appendError(problem)
	case wanted.user == nil && s.tenant == nil:
		s.appendError(errHelloNoAuth)
	case s.pinned != nil && s.executing == nil && wanted.version != s.protocol:
		s.helloPinned(&wanted)
	case wanted.user == nil:
		s.replyLocal(s.greet(&wanted))
	default:
		s.authenticate(string(wanted.user), wanted.password, func() []byte { return s.greet(&wanted) })
	}
}

// wantedHello is what HELLO asks for.
type wantedHello struct {
	version        int8   // 0: as it is
	user, password []byte // nil: none
	name           *string
}

func parseHello(args [][]byte) (wanted wantedHello, problem string) {
	if len(args) > 1 {
		switch v, ok := parseInteger(args[1]); {
		case !ok:
			return wanted, errProtoInteger
		case v != 2 && v != 3:
			return wanted, errNoProto
		default:
			wanted.version = int8(v)
		}
	}
	for i := 2; i < len(args); i++ {
		left := len(args) - 1 - i
		switch option := strings.ToLower(string(args[i])); {
		case option == "auth" && left >= 2:
			wanted.user, wanted.password = args[i+1], args[i+2]
			i += 2
		case option == "setname" && left >= 1:
			text := string(args[i+1])
			if !validName(text) {
				return wanted, errClientName
			}
			wanted.name = &text
			i++
		default:
			return wanted, "ERR Syntax error in HELLO option '" + oneLine(args[i]) + "'"
		}
	}
	return wanted, ""
}

// helloPinned has the node change the protocol version of a session that watches keys: they are on a connection of its own.
func (s *Session) helloPinned(wanted *wantedHello) {
	if wanted.user != nil || s.tracking != nil {
		s.refuse(errHelloWatching)
		return
	}
	p := s.newPending(command.ClassConnection)
	p.amend = func(_ *pending, reply []byte) []byte {
		if reply[0] != '%' && reply[0] != '*' {
			return reply
		}
		return s.greet(wanted)
	}
	s.barrier = true
	s.pinned.dirty, s.pinned.barrierOf = true, p
	s.sendPinned(p, s.pinned.slot, appendHello(nil, int(wanted.version)))
}

// greet switches the protocol version and makes HELLO's reply.
func (s *Session) greet(wanted *wantedHello) []byte {
	s.protocol = wanted.version
	if wanted.name != nil {
		s.name = *wanted.name
	}
	s.retarget()
	server := s.serverName()
	b := s.appendMap(nil, 7)
	b = redcon.AppendBulkString(b, "server")
	b = redcon.AppendBulkString(b, server.Product)
	b = redcon.AppendBulkString(b, "version")
	b = redcon.AppendBulkString(b, server.Version)
	b = redcon.AppendBulkString(b, "proto")
	b = redcon.AppendInt(b, int64(wanted.version))
	b = redcon.AppendBulkString(b, "id")
	b = redcon.AppendInt(b, int64(s.id))
	b = redcon.AppendBulkString(b, "mode")
	b = redcon.AppendBulkString(b, s.redisMode())
	b = redcon.AppendBulkString(b, "role")
	b = redcon.AppendBulkString(b, "master")
	b = redcon.AppendBulkString(b, "modules")
	return redcon.AppendArray(b, 0)
}

// serverName is what the session's backend is. Clients decide by it what they may use.
func (s *Session) serverName() upstream.ServerName {
	if s.local != nil {
		if name, known := s.local.Cluster().Server(); known {
			return name
		}
	}
	return upstream.ServerName{Product: "redis", Version: s.worker.shared.Settings.RedisVersion}
}

// redisVersion is that of the Redis which the session's backend is, or is like.
func (s *Session) redisVersion() string {
	if name := s.serverName(); name.Product == "redis" {
		return name.Version
	}
	return s.worker.shared.Settings.RedisVersion
}

// oneLine keeps what a client sent on the line of an error reply.
func oneLine(b []byte) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(string(b[:min(len(b), 128)]))
}
