package session

import (
	"errors"
	"time"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

const (
	// learnedFor is how long the proxy goes by what a node said of a command, unlearnedFor how long by that there is none:
	// short, because a module may be loaded at any time.
	learnedFor   = 10 * time.Minute
	unlearnedFor = 2 * time.Second
	// learnedNameMax bounds the names that are asked for.
	learnedNameMax = 128
)

// lesson is the answer that a session waited for. It is kept for the command that asked: what the loop remembers may be
// gone when that is looked at again.
type lesson struct {
	from *upstream.Local
	key  string
	fact any
	err  error
}

// factRefused is what is remembered of a command that the nodes do not want to tell about.
type factRefused struct{}

// learn finds out about a command that is not in the table, by asking the backend the first time. nil: the command at
// hand is done, or must wait, as done tells.
func (s *Session) learn(args [][]byte) (cmd *command.Command, done bool) {
	cmd, problem, answered := s.lookUpCommand(args)
	switch {
	case !answered:
		return nil, false
	case problem != "":
		return nil, s.refuse(problem)
	case cmd == nil:
		return nil, s.unknown(args)
	}
	return cmd, true
}

func (s *Session) lookUpCommand(args [][]byte) (cmd *command.Command, problem string, answered bool) {
	if s.tenant == nil || !mayBeCommand(args[0]) || looksLikeHTTP(args[0]) {
		return nil, "", true
	}
	return s.lookUp(args[0])
}

// learnSub is learn for a subcommand that is not in the table, of a container that is.
func (s *Session) learnSub(container *command.Command, args [][]byte, wrong error) (cmd *command.Command, done bool) {
	if s.trusted && ofBackend(container) {
		return container, true // the backend knows what it is
	}
	cmd, problem, answered := s.lookUpSub(container, args)
	switch {
	case !answered:
		return nil, false
	case cmd != nil:
		return cmd, true
	case problem == "":
		problem = "ERR " + wrong.Error()
	}
	return nil, s.refuse(problem)
}

func (s *Session) lookUpSub(container *command.Command, args [][]byte) (cmd *command.Command, problem string, answered bool) {
	served := container.Kind == command.KindForward || container.Kind == command.KindFanOut
	if s.tenant == nil || !served || !mayBeCommand(args[1]) {
		return nil, "", true
	}
	name := make([]byte, 0, 64)
	return s.lookUp(append(append(append(name, container.Name...), '|'), args[1]...))
}

// mayBeCommand reports whether a name is worth a question. "container|sub" names no command that can be sent.
func mayBeCommand(name []byte) bool {
	if len(name) == 0 || len(name) > learnedNameMax {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c > '~' || c == '|' {
			return false
		}
	}
	return true
}

// lookUp gives the command of a name that the backend knows. No command and no problem: it does not know it either.
// answered is false while it is being asked; the command at hand must wait.
func (s *Session) lookUp(name []byte) (cmd *command.Command, problem string, answered bool) {
	key := s.worker.factKey(name)
	fact, known := s.local.Recall(key)
	if l := s.lesson; l != nil && l.from == s.local && l.key == string(key) {
		if l.err != nil {
			s.lesson = nil
			return nil, errLearning(l.err), true
		}
		fact, known = l.fact, true
	}
	s.lesson = nil
	if !known {
		s.ask(string(key), string(key[len(factCommand):]))
		return nil, "", false
	}
	switch fact := fact.(type) {
	case *command.Command:
		return fact, "", true
	default: // also when the nodes do not tell: to its clients it does not exist then
		return nil, "", true
	}
}

const factCommand = "command:"

// factKey is the key of what the cluster knows of a command, valid until the next.
func (w *Worker) factKey(name []byte) []byte {
	b := w.factName[:0]
	b = append(b, factCommand...)
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		b = append(b, c)
	}
	w.factName = b
	return b
}

// ask has the backend asked about a command. Nothing more is consumed until it has answered; then the command is looked
// at again.
func (s *Session) ask(key, name string) {
	s.barrier = true
	from := s.local
	from.Learn(upstream.Question{Key: key, Asker: s.tenant.Name, Answer: func(ask upstream.Ask) (any, time.Duration, error) {
		return askCommandInfo(ask, name)
	}}, func(fact any, err error) {
		if s.conn.Closed() {
			return
		}
		s.lesson = &lesson{from, key, fact, err}
		s.barrier = false
		s.goOn()
	})
}

func askCommandInfo(ask upstream.Ask, name string) (fact any, life time.Duration, err error) {
	reply, err := ask("COMMAND", "INFO", name)
	if errors.Is(err, upstream.ErrRefused) {
		return factRefused{}, unlearnedFor, nil
	}
	if err != nil {
		return nil, 0, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) != 1 {
		return factRefused{}, unlearnedFor, nil
	}
	cmd, err := command.FromInfo(list[0], name)
	switch {
	case err != nil:
		return factRefused{}, unlearnedFor, nil //nolint:nilerr // what the node said makes no sense: that is remembered
	case cmd == nil:
		return nil, unlearnedFor, nil
	}
	return cmd, learnedFor, nil
}

// runLearned handles a command of which only the backend's word is known. It returns false when the command must wait.
func (s *Session) runLearned(cmd *command.Command, args [][]byte, raw []byte) bool {
	if problem := s.judgeLearned(cmd); problem != "" {
		return s.refuse(problem)
	}
	if cmd.Flags&command.Blocking != 0 {
		return s.block(cmd, args, raw)
	}
	return s.forward(cmd, args, raw)
}

// judgeLearned tells why a learned command is not served; empty: it is.
func (s *Session) judgeLearned(cmd *command.Command) (problem string) {
	switch {
	case cmd.Kind != command.KindLearned:
	case cmd.Flags&command.Admin != 0 && !s.tenant.Trusted && !s.tenant.AdminModules:
		return errAdmin(cmd.Name)
	case cmd.Stateful:
		return errStateful(cmd.Name)
	case s.sharded && cmd.KeysUnknown():
		return errKeysUnknown(cmd.Name)
	}
	return ""
}

// learnStream is learn for a command that is being received. While the backend is asked, the session is at a barrier.
func (s *Session) learnStream(args [][]byte) (cmd *command.Command, problem string) {
	cmd, problem, answered := s.lookUpCommand(args)
	if answered && cmd == nil && problem == "" {
		problem = "ERR " + command.UnknownCommand(args)
	}
	return cmd, problem
}
