package session

import (
	"strings"
	"sync/atomic"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/tenant"
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
	s.authenticate(user, password, func(ok bool) []byte {
		if !ok {
			return appendError(nil, errWrongPass)
		}
		return replyOK
	})
}

// authenticate checks a password, off the loop when that takes long, and answers the command with what answer makes of
// the result. Nothing else of the session runs meanwhile.
func (s *Session) authenticate(user string, password []byte, answer func(ok bool) []byte) {
	w := s.worker
	registry := w.snapshot().Registry
	bound := registry.ForListener(s.bound)
	if bound == nil && s.bound != "" {
		bound = &tenant.Tenant{Name: s.bound, Closed: true} // not registered, or no longer: nobody else may come in here
	}
	if !registry.Slow(user) {
		t, u, err := registry.AuthenticateFor(bound, user, password)
		s.replyLocal(answer(s.authenticated(t, u, err)))
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
				p.complete(answer(s.authenticated(t, u, err)))
				return
			}
			p.complete(nil)
		})
	})
}

// authenticated makes the session the user's.
func (s *Session) authenticated(t *tenant.Tenant, user *tenant.User, err error) bool {
	if err != nil {
		s.worker.Stats.AuthFailures++
		return false
	}
	if current := s.worker.snapshot().Registry.Tenant(t.Name); current != t {
		s.worker.Stats.AuthFailures++
		return false // removed while the password was being checked
	}
	if s.tenant != nil && s.tenant.Name != t.Name {
		s.leaveChannels()
		s.stopMonitor()
		s.dropTracking()
		s.leaveTrackers()
	}
	s.become(t, user)
	return true
}

// hello handles HELLO [version [AUTH user password] [SETNAME name]].
func (s *Session) hello(args [][]byte) {
	version := int(s.protocol)
	if len(args) > 1 {
		v, ok := parseInteger(args[1])
		if !ok {
			s.appendError(errProtoInteger)
			return
		}
		if v != 2 && v != 3 {
			s.appendError(errNoProto)
			return
		}
		version = int(v)
	}
	var user, password []byte
	var name *string
	for i := 2; i < len(args); i++ {
		left := len(args) - 1 - i
		switch option := strings.ToLower(string(args[i])); {
		case option == "auth" && left >= 2:
			user, password = args[i+1], args[i+2]
			i += 2
		case option == "setname" && left >= 1:
			text := string(args[i+1])
			if !validName(text) {
				s.appendError(errClientName)
				return
			}
			name = &text
			i++
		default:
			s.appendError("ERR Syntax error in HELLO option '" + oneLine(args[i]) + "'")
			return
		}
	}
	if user == nil {
		if s.tenant == nil {
			s.appendError(errHelloNoAuth)
			return
		}
		s.replyLocal(s.greet(version, name))
		return
	}
	s.authenticate(string(user), password, func(ok bool) []byte {
		if !ok {
			return appendError(nil, errWrongPass)
		}
		return s.greet(version, name)
	})
}

// greet switches the protocol version and makes HELLO's reply.
func (s *Session) greet(version int, name *string) []byte {
	s.protocol = int8(version)
	if name != nil {
		s.name = *name
	}
	s.retarget()
	b := s.appendMap(nil, 7)
	b = redcon.AppendBulkString(b, "server")
	b = redcon.AppendBulkString(b, "redis")
	b = redcon.AppendBulkString(b, "version")
	b = redcon.AppendBulkString(b, s.worker.shared.Settings.RedisVersion)
	b = redcon.AppendBulkString(b, "proto")
	b = redcon.AppendInt(b, int64(version))
	b = redcon.AppendBulkString(b, "id")
	b = redcon.AppendInt(b, int64(s.id))
	b = redcon.AppendBulkString(b, "mode")
	b = redcon.AppendBulkString(b, s.redisMode())
	b = redcon.AppendBulkString(b, "role")
	b = redcon.AppendBulkString(b, "master")
	b = redcon.AppendBulkString(b, "modules")
	return redcon.AppendArray(b, 0)
}

// oneLine keeps what a client sent on the line of an error reply.
func oneLine(b []byte) string {
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(string(b[:min(len(b), 128)]))
}
