package session

import (
	"bytes"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

const (
	// learnMax is the longest body of EVAL that is remembered. SCRIPT LOAD's are whatever their length, up to the stream
	// threshold.
	learnMax = 64 << 10
	// shaLength is that of a script's name.
	shaLength = 40
)

// scriptView is what one loop has in front of the memory of a tenant's scripts, so that a command takes no lock and a body
// that was sent before is not hashed again.
type scriptView struct {
	memory  *upstream.TenantScripts
	changes uint64 // of the memory, when the rest was emptied last
	bySHA   map[string]*upstream.Script
	byBody  map[string]*upstream.Script
}

// scriptViews are the views of one loop. They are made anew with each routing table, so that none outlives its cluster.
type scriptViews struct {
	table *route.Table
	views map[scriptsOf]*scriptView
}

type scriptsOf struct {
	cluster *upstream.Cluster
	tenant  string
}

// scripts is the loop's view of the scripts of the session's tenant.
func (s *Session) scripts() *scriptView {
	all := &s.worker.scripts
	if all.table != s.worker.table {
		all.table, all.views = s.worker.table, make(map[scriptsOf]*scriptView)
	}
	key := scriptsOf{s.local.Cluster(), s.tenant.Name}
	v := all.views[key]
	if v == nil {
		v = &scriptView{memory: key.cluster.Scripts().Of(key.tenant)}
		all.views[key] = v
	}
	v.renew()
	return v
}

// renew lets go of everything when the memory has forgotten something.
func (v *scriptView) renew() {
	if now := v.memory.Changes(); v.changes != now || v.bySHA == nil {
		v.changes = now
		v.bySHA, v.byBody = make(map[string]*upstream.Script), make(map[string]*upstream.Script)
	}
}

// learn remembers a script.
func (v *scriptView) learn(body []byte) *upstream.Script {
	if known := v.byBody[string(body)]; known != nil {
		return known
	}
	script := v.memory.Learn(body)
	v.keep(script)
	return script
}

// find is the script that the client names, nil if it is not remembered.
func (v *scriptView) find(name []byte) *upstream.Script {
	if len(name) != shaLength {
		return nil
	}
	var sha [shaLength]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		sha[i] = c
	}
	if known := v.bySHA[string(sha[:])]; known != nil {
		return known
	}
	script := v.memory.Find(string(sha[:]))
	if script != nil {
		v.keep(script)
	}
	return script
}

func (v *scriptView) keep(script *upstream.Script) {
	v.bySHA[script.SHA] = script
	v.byBody[script.Body] = script
}

// use is the remembered script that a command runs by its name, nil when it runs none; one that a command brings along is
// remembered.
func (s *Session) use(cmd *command.Command, args [][]byte) *upstream.Script {
	switch cmd.Name {
	case "eval", "eval_ro":
		if len(args[1]) <= learnMax {
			s.scripts().learn(args[1])
		}
	case "evalsha", "evalsha_ro":
		return s.scripts().find(args[1])
	case "script|load": // in a transaction, as the next
		s.scripts().learn(args[2])
	case "script|flush":
		s.scripts().memory.Forget()
	}
	return nil
}

// runScript handles the commands that run a script or function. It returns false when the command must wait.
func (s *Session) runScript(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.tenant.NoScripts {
		return s.refuse(errNoScripts(cmd.Name))
	}
	if s.routesChanged() {
		return false
	}
	script := s.use(cmd, args)
	if script == nil {
		return s.forward(cmd, args, raw)
	}
	w := s.worker
	at := route.NoSlot
	if s.sharded {
		var decision route.Decision
		decision, at, w.keys = route.Decide(cmd, args, s.tenant.CrossSlot, w.keys)
		if decision != route.Forward {
			return s.refuse(errCrossSlot)
		}
	}
	if s.loose {
		raw = w.encode(args)
	}
	p := s.newPending(cmd.Class)
	p.ReadOnly = cmd.Flags&command.ReadOnly != 0
	p.script = script
	s.prepare(p, at)
	s.local.Provide(&p.Call, script)
	s.submit(p, at, raw)
	return true
}

// Script implements upstream.ScriptUser.
func (p *pending) Script() *upstream.Script { return p.script }

// noteScript remembers which script a queued command will run.
func (s *Session) noteScript(cmd *command.Command, args [][]byte) {
	if script := s.use(cmd, args); script != nil {
		s.transaction.scripts = append(s.transaction.scripts, script)
	}
}

// provideAll has the node given the scripts that a transaction runs.
func (s *Session) provideAll(p *pending, at int32, scripts []*upstream.Script) {
	s.prepare(p, at)
	for _, script := range scripts {
		s.local.Provide(&p.Call, script)
	}
}

// providePinned is provideAll for a transaction that goes over the session's own connection.
func (s *Session) providePinned(p *pending, at int32, scripts []*upstream.Script) {
	if s.pinned.own != nil {
		s.provideAll(p, at, scripts)
		return
	}
	s.prepare(p, at)
	for _, script := range scripts {
		s.pinned.conn.Provide(&p.Call, script)
	}
}

// runScripting handles the commands that concern the scripts and functions of the nodes. It returns false when the command
// must wait.
func (s *Session) runScripting(cmd *command.Command, args [][]byte, raw []byte) bool {
	if s.routesChanged() {
		return false
	}
	switch cmd.Name {
	case "script|load":
		return s.scriptLoad(cmd, args, raw)
	case "script|flush":
		return s.scriptFlush(cmd, args, raw)
	case "script|kill", "function|kill":
		return s.askBeside(cmd, args, mergeKill)
	case "function|stats":
		return s.askBeside(cmd, args, mergeFunctionStats)
	}
	if !s.sharded {
		return s.forward(cmd, args, raw)
	}
	switch cmd.Name {
	case "script|exists":
		return s.scriptExists(cmd, args, raw)
	case "script|show":
		return s.fanOut(cmd, args, raw, mergeFirstGood)
	case "function|list":
		return s.fanOut(cmd, args, raw, mergeLibraries)
	case "function|dump":
		return s.askFirst(cmd, args, raw)
	default: // function|load, delete, flush, restore
		return s.fanOut(cmd, args, raw, func(dst []byte, replies [][]byte) []byte { return mergeDone(dst, cmd.Name, replies) })
	}
}

// trespassScripting tells why a command must not run that would show or change what other tenants of the same servers
// run. Scripts are a cache, which the proxy fills again from what it remembers of each tenant; functions are data.
func (s *Session) trespassScripting(cmd *command.Command) (problem string) {
	if s.tenant.NoScripts {
		return errNoScripts(cmd.Name)
	}
	switch cmd.Name {
	case "script|load", "script|flush", "script|exists":
		return ""
	}
	if cmd.Kind == command.KindFanOut && s.sharesCluster() {
		return errSharedScripting(cmd.Name)
	}
	return ""
}

// scriptLoad loads a script on every node and remembers it.
func (s *Session) scriptLoad(cmd *command.Command, args [][]byte, raw []byte) bool {
	view, body := s.scripts(), bytes.Clone(args[2])
	return s.fanOut(cmd, args, raw, func(dst []byte, replies [][]byte) []byte {
		if route.FirstError(replies) == nil {
			view.memory.Learn(body)
		}
		return mergeDone(dst, cmd.Name, replies)
	})
}

// scriptFlush empties the caches of all nodes, and what is remembered for the tenant. Other tenants' scripts are given to
// the nodes again when they are used.
func (s *Session) scriptFlush(cmd *command.Command, args [][]byte, raw []byte) bool {
	if len(args) > 3 || len(args) == 3 && !bytes.EqualFold(args[2], []byte("async")) && !bytes.EqualFold(args[2], []byte("sync")) {
		return s.fanOut(cmd, args, raw, route.MergeFirst) // a node says what is wrong
	}
	memory := s.scripts().memory
	memory.Forget()
	all := s.local.Cluster().Scripts()
	return s.fanOut(cmd, args, raw, func(dst []byte, replies [][]byte) []byte {
		all.Flushed()
		return mergeDone(dst, cmd.Name, replies)
	})
}

// scriptExists tells of each script whether EVALSHA would find it: on all nodes; or on one at least, when the proxy can
// give it to the others.
func (s *Session) scriptExists(cmd *command.Command, args [][]byte, raw []byte) bool {
	view := s.scripts()
	remembered := make([]bool, len(args)-2)
	for i, name := range args[2:] {
		remembered[i] = view.find(name) != nil
	}
	return s.fanOut(cmd, args, raw, func(dst []byte, replies [][]byte) []byte { return mergeExists(dst, remembered, replies) })
}

// askFirst sends a command to the primary of the first shard, always the same.
func (s *Session) askFirst(cmd *command.Command, args [][]byte, raw []byte) bool {
	slots := s.local.ShardSlots()
	if len(slots) == 0 {
		return s.refuse(errNotSent(upstream.Uncovered, false))
	}
	if s.loose {
		raw = s.worker.encode(args)
	}
	s.submit(s.newPending(cmd.Class), slots[0], raw)
	return true
}

// askBeside asks every primary over a connection of its own, because a node that is busy with a script answers on no
// connection behind which that script was sent.
func (s *Session) askBeside(cmd *command.Command, args [][]byte, merge route.Merge) bool {
	if s.busy() {
		return false
	}
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = string(arg)
	}
	w := s.worker
	p := s.newPending(cmd.Class)
	p.others++
	s.barrier = true
	s.local.Cluster().AskBeside(int(s.protocol), texts, func(replies [][]byte) {
		w.Loop.Post(func() {
			if len(replies) == 0 {
				p.complete(appendError(nil, errNotSent(upstream.Uncovered, false)))
				return
			}
			p.complete(merge(nil, replies))
		})
	})
	return true
}

// judgeScriptStream finds out where a script with a long argument goes: the number of its keys, and the keys, must stand
// in front of that.
func (s *Session) judgeScriptStream(cmd *command.Command, front [][]byte) (_ *command.Command, at int32, problem string) {
	if len(front) < 3 {
		return nil, route.NoSlot, errKeyAfterLong
	}
	var decision route.Decision
	decision, at, s.worker.keys = route.Decide(cmd, front, s.tenant.CrossSlot, s.worker.keys)
	switch {
	case decision != route.Forward:
		return nil, route.NoSlot, errCrossSlot
	case at == route.NoSlot && string(front[2]) != "0":
		return nil, route.NoSlot, errKeyAfterLong
	}
	return cmd, at, ""
}
