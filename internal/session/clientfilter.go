package session

import (
	"strings"
)

// clientFilter says which clients CLIENT LIST and CLIENT KILL are about. It never fits a client of another tenant.
type clientFilter struct {
	tenant  string
	ids     map[uint64]bool // nil: any
	kind    clientKind
	address string // empty: any
	local   string
	user    string
	minAge  int64 // seconds
	except  *Session
}

// clientKind is a type of client as CLIENT LIST knows it. There are no replicas and primaries among a proxy's clients.
type clientKind uint8

const (
	anyClient clientKind = iota
	normalClient
	pubsubClient
	noClient
)

func parseClientKind(name []byte) (kind clientKind, ok bool) {
	switch strings.ToLower(string(name)) {
	case "normal":
		return normalClient, true
	case "pubsub":
		return pubsubClient, true
	case "master", "replica", "slave":
		return noClient, true
	}
	return anyClient, false
}

// fits is called on the other session's loop.
func (f *clientFilter) fits(other *Session) bool {
	if other.tenant == nil || other.tenant.Name != f.tenant || other == f.except {
		return false
	}
	switch {
	case f.ids != nil && !f.ids[other.id],
		f.address != "" && f.address != other.peer,
		f.local != "" && f.local != other.listener,
		f.user != "" && f.user != tenantUser(other):
		return false
	case f.minAge > 0 && (other.worker.Loop.Now()-other.created)/1e9 < f.minAge:
		return false
	}
	switch f.kind {
	case normalClient:
		return !other.subscribed()
	case pubsubClient:
		return other.subscribed()
	}
	return f.kind == anyClient
}

// option reads one filter with its value.
func (s *Session) option(f *clientFilter, name string, value []byte) (problem string) {
	switch name {
	case "type":
		kind, ok := parseClientKind(value)
		if !ok {
			return errClientKind(value)
		}
		f.kind = kind
	case "addr":
		f.address = string(value)
	case "laddr":
		f.local = string(value)
	case "user":
		if !s.tenantHas(string(value)) {
			return errNoSuchUser(value)
		}
		f.user = string(value)
	case "skipme":
		return s.skipMe(f, value)
	case "maxage":
		age, ok := parseInteger(value)
		if !ok {
			return errMaxAge
		}
		if age <= 0 {
			return errMaxAgePositive
		}
		f.minAge = age
	default:
		return errSyntax
	}
	return ""
}

func (s *Session) skipMe(f *clientFilter, value []byte) (problem string) {
	switch strings.ToLower(string(value)) {
	case "yes":
		f.except = s
	case "no":
		f.except = nil
	default:
		return errSyntax
	}
	return ""
}

// tenantHas reports whether a user of that name may log in to the session's tenant.
func (s *Session) tenantHas(user string) bool {
	return s.tenant.Users[user] != nil || user == tenantUser(s)
}

// parseKillFilter reads the options of CLIENT KILL. Unless they say otherwise, the session spares itself.
func (s *Session) parseKillFilter(f *clientFilter, options [][]byte) (problem string) {
	f.except = s
	for ; len(options) > 0; options = options[2:] {
		if len(options) == 1 {
			return errSyntax
		}
		name := strings.ToLower(string(options[0]))
		if name == "id" {
			id, ok := parseInteger(options[1])
			if !ok || id <= 0 {
				return errClientIDPositive
			}
			f.ids = map[uint64]bool{uint64(id): true}
			continue
		}
		if problem := s.option(f, name, options[1]); problem != "" {
			return problem
		}
	}
	return ""
}

// parseListFilter reads the options of CLIENT LIST: TYPE and ID, and those that newer servers share with CLIENT KILL.
func (s *Session) parseListFilter(options [][]byte) (f clientFilter, problem string) {
	f.tenant = s.tenant.Name
	for len(options) > 0 {
		if len(options) == 1 {
			return f, errSyntax
		}
		name := strings.ToLower(string(options[0]))
		if name == "id" {
			options, problem = f.takeIDs(options[1:])
		} else {
			problem = s.option(&f, name, options[1])
			options = options[2:]
		}
		if problem != "" {
			return f, problem
		}
	}
	return f, ""
}

// takeIDs reads numbers up to the next option.
func (f *clientFilter) takeIDs(list [][]byte) (rest [][]byte, problem string) {
	f.ids = make(map[uint64]bool, len(list))
	for i, arg := range list {
		id, ok := parseInteger(arg)
		if !ok {
			if i > 0 && isClientOption(arg) {
				return list[i:], ""
			}
			return nil, errClientID
		}
		f.ids[uint64(id)] = true
	}
	return nil, ""
}

func isClientOption(arg []byte) bool {
	switch strings.ToLower(string(arg)) {
	case "type", "addr", "laddr", "user", "skipme", "maxage":
		return true
	}
	return false
}
