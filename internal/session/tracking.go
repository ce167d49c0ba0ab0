package session

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/pipe"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// tracking is what a session has with client-side caching on. All its commands go over connections of its own, on which
// the nodes track for it, so that each mode means what it means there; see
// https://redis.io/docs/latest/develop/reference/client-side-caching/.
type tracking struct {
	trackingOptions
	tracker *upstream.Tracker
	caching bool    // CLIENT CACHING: goes in front of the next command
	target  *Worker // of the client that the messages are redirected to; it stays on its loop
	gone    bool    // that client is gone
	broken  bool    // and there was a message for it since
	left    bool    // the tracker is left to an abandoned pop, which ends it
}

// runTracking handles the commands about client-side caching. It returns false when the command must wait.
func (s *Session) runTracking(cmd *command.Command, args [][]byte) bool {
	if cmd.Name == "client|tracking" && s.head != nil {
		return false
	}
	s.stats.observe(cmd.Class, 0)
	switch cmd.Name {
	case "client|tracking":
		s.clientTracking(args)
	case "client|caching":
		s.clientCaching(args[2])
	case "client|getredir":
		_, redirect := s.trackingFlags()
		s.replyInt(redirect)
	default:
		s.trackingInfo()
	}
	return true
}

// clientTracking handles CLIENT TRACKING. Nothing else of the session runs until it is answered.
func (s *Session) clientTracking(args [][]byte) {
	wanted, problem := parseTracking(args)
	p := s.newLocal()
	p.others++
	s.barrier = true
	if !wanted.redirected {
		s.track(p, &wanted, problem, nil)
		return
	}
	s.findTarget(p, wanted.redirect, func(target *Worker) {
		if target == nil {
			p.complete(appendError(nil, errRedirectUnknown))
			return
		}
		s.track(p, &wanted, problem, target)
	})
}

// track does what CLIENT TRACKING asks for and answers it by p.
func (s *Session) track(p *pending, wanted *trackingOptions, problem string, target *Worker) {
	if problem == "" && wanted.on {
		problem = s.judgeTracking(wanted)
	}
	if problem != "" || !wanted.on {
		if target != nil && (s.tracking == nil || uint64(s.tracking.redirect) != uint64(wanted.redirect)) {
			s.forgetTarget(target, uint64(wanted.redirect))
		}
	}
	switch {
	case problem != "":
		p.complete(appendError(nil, problem))
	case !wanted.on:
		s.dropTracking()
		p.complete(replyOK)
	case s.tracking == nil:
		s.beginTracking(p, wanted, target)
	default:
		s.changeTracking(p, wanted, target)
	}
}

// judgeTracking tells why tracking cannot be turned on as wanted, with Redis's words where it refuses too.
func (s *Session) judgeTracking(wanted *trackingOptions) (problem string) {
	now := &trackingOptions{}
	if s.tracking != nil {
		now = &s.tracking.trackingOptions
	}
	if problem = wanted.judge(now, s.tracking != nil); problem != "" {
		return problem
	}
	switch {
	case wanted.bcast && !s.sharded && s.sharesCluster():
		return errBroadcastShared
	case s.pinned != nil:
		return errWatching("client|tracking")
	case prefixBytes(wanted.prefixes)+prefixBytes(now.prefixes) > prefixBytesMax:
		return errPrefixesLong
	}
	return ""
}

// beginTracking connects to the nodes.
func (s *Session) beginTracking(p *pending, wanted *trackingOptions, target *Worker) {
	tr := &tracking{trackingOptions: *wanted, target: target}
	tr.prefixes = nil
	tr.addPrefixes(wanted)
	s.tracking = tr
	s.worker.Stats.Pinned[pinTracking]++
	s.epoch = s.local.Epoch()
	s.retarget()
	tr.tracker = s.local.NewTracker(uint32(s.id), s.target, s, s.howToTrack(tr.trackingOptions, nil))
	outcome := tr.tracker.Begin(func(problem upstream.TrackingProblem) { s.tracked(p, tr, problem) })
	switch outcome {
	case upstream.Sent:
		s.wantsSince = 0
	case upstream.Full:
		tr.target = nil // which stays known
		s.dropTracking()
		s.waitToTrack(p, wanted, target)
	default:
		s.wantsSince = 0
		s.dropTracking()
		p.complete(appendError(nil, s.notSentText(outcome, false)))
	}
}

// waitToTrack tries again when a connection may be free, for a while.
func (s *Session) waitToTrack(p *pending, wanted *trackingOptions, target *Worker) {
	now := s.worker.Loop.Now()
	if s.wantsSince == 0 {
		s.wantsSince = now
	}
	left := int64(s.local.Cluster().DedicatedWait()) - (now - s.wantsSince)
	if left > 0 {
		p.others-- // a session that is closed ends the wait
		s.wants = s.local.Await(route.NoSlot, uint32(s.id), s.target, time.Duration(left), func() {
			p.others++
			s.wants = nil
			s.beginTracking(p, wanted, target)
		})
		return
	}
	s.wantsSince = 0
	s.local.Stats.Exhausted++
	if target != nil {
		s.forgetTarget(target, uint64(wanted.redirect))
	}
	p.complete(appendError(nil, errDedicatedFull))
}

// changeTracking has the nodes track in another way, over the connections that there are unless the messages are to come
// by other ones.
func (s *Session) changeTracking(p *pending, wanted *trackingOptions, target *Worker) {
	tr := s.tracking
	if tr.target != nil && tr.redirect != wanted.redirect {
		s.forgetTarget(tr.target, uint64(tr.redirect))
	}
	rebuild := tr.redirected != wanted.redirected
	prefixes := tr.prefixes
	tr.trackingOptions = *wanted
	tr.prefixes = prefixes
	tr.addPrefixes(wanted)
	tr.target, tr.gone, tr.broken = target, false, false
	done := func(problem upstream.TrackingProblem) { s.tracked(p, tr, problem) }
	if !rebuild {
		tr.tracker.Change(s.howToTrack(tr.trackingOptions, wanted.prefixes), done)
		return
	}
	tr.tracker.End()
	tr.tracker = s.local.NewTracker(uint32(s.id), s.target, s, s.howToTrack(tr.trackingOptions, nil))
	s.CacheLost() // what was tracked over the old connections is forgotten
	if outcome := tr.tracker.Begin(done); outcome != upstream.Sent {
		s.dropTracking()
		p.complete(appendError(nil, s.notSentText(outcome, false)))
	}
}

// tracked answers CLIENT TRACKING when the nodes have answered.
func (s *Session) tracked(p *pending, tr *tracking, problem upstream.TrackingProblem) {
	switch {
	case p.session == nil:
		p.complete(nil)
	case problem.IsNone():
		p.complete(replyOK)
	default:
		if s.tracking == tr {
			s.dropTracking()
		}
		reply := problem.Reply
		if reply == nil {
			reply = appendError(nil, s.failedText(problem.Failure))
		}
		p.complete(reply)
	}
}

// howToTrack describes the options to the tracker. added are the prefixes that a connection which tracks already does
// not know of.
func (s *Session) howToTrack(o trackingOptions, added []string) upstream.Tracking {
	return upstream.Tracking{
		Feed: o.redirected, Everywhere: o.bcast, Timeout: s.tenant.CommandTimeout,
		Command: func(dst []byte, redirect int64, again bool) []byte {
			prefixes := o.prefixes
			if again {
				prefixes = added
			}
			return o.appendCommand(dst, redirect, prefixes)
		},
	}
}

// dropTracking turns tracking off. The connections are closed: what is left on them is not for anybody else.
func (s *Session) dropTracking() {
	tr := s.tracking
	if tr == nil {
		return
	}
	s.tracking = nil
	s.worker.Stats.Pinned[pinTracking]--
	if !tr.left {
		tr.tracker.End()
	}
	if tr.target != nil {
		s.forgetTarget(tr.target, uint64(tr.redirect))
	}
	s.retarget()
}

// clientCaching handles CLIENT CACHING. It is about the next command, whichever node that goes to.
func (s *Session) clientCaching(arg []byte) {
	problem := s.judgeCaching(string(arg))
	if problem != "" {
		s.appendError(problem)
		return
	}
	s.tracking.caching = true
	s.replyOK()
}

// prefaceCaching puts CLIENT CACHING in front of the command at hand.
func (s *Session) prefaceCaching(p *pending, request []byte) []byte {
	if !s.tracking.caching {
		return request
	}
	s.tracking.caching = false
	p.Preface++
	return slices.Concat(s.tracking.cachingCommand(), request)
}

var cachingHead = []byte("*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n") //nolint:gochecknoglobals // constant

// commands are what p has been sent for: its request without the CLIENT CACHING of prefaceCaching.
func (p *pending) commands() []byte {
	request := p.Request()
	if bytes.HasPrefix(request, cachingHead) {
		_, request = cutReply(request)
	}
	return request
}

// endCaching is called after a command that has gone to no node: CLIENT CACHING was about it.
func (s *Session) endCaching(cmd *command.Command) {
	if cmd == nil || cmd.Parent == nil || cmd.Parent.Name != "client" {
		s.tracking.caching = false
	}
}

// trackingInfo answers CLIENT TRACKINGINFO.
func (s *Session) trackingInfo() {
	var flags, prefixes []string
	_, redirect := s.trackingFlags()
	if tr := s.tracking; tr == nil {
		flags = []string{"off"}
	} else {
		flags, prefixes = tr.flags(), tr.prefixes
	}
	b := s.appendMap(nil, 3)
	b = redcon.AppendBulkString(b, "flags")
	b = s.appendSet(b, len(flags))
	for _, flag := range flags {
		b = redcon.AppendBulkString(b, flag)
	}
	b = redcon.AppendBulkString(b, "redirect")
	b = redcon.AppendInt(b, redirect)
	b = redcon.AppendBulkString(b, "prefixes")
	b = redcon.AppendArray(b, len(prefixes))
	for _, prefix := range prefixes {
		b = redcon.AppendBulkString(b, prefix)
	}
	s.replyLocal(b)
}

// appendSet appends the header of a set of n elements, which RESP2 knows as an array.
func (s *Session) appendSet(dst []byte, n int) []byte {
	if s.protocol < 3 {
		return redcon.AppendArray(dst, n)
	}
	dst = append(dst, '~')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, '\r', '\n')
}

// trackingFlags is what CLIENT LIST says of tracking: letters among its flags, and the client that the messages are
// redirected to, 0 for none and -1 when tracking is off.
func (s *Session) trackingFlags() (flags string, redirect int64) {
	tr := s.tracking
	if tr == nil {
		return "", -1
	}
	flags = "t"
	if tr.broken {
		flags += "R"
	}
	if tr.bcast {
		flags += "B"
	}
	return flags, tr.redirect
}

// pinOwn is pin for a session that has a connection to each node anyway.
func (s *Session) pinOwn(slot int32) upstream.Outcome {
	conn, outcome := s.tracking.tracker.Pipe(slot)
	if outcome == upstream.Sent {
		s.pinned = &pinned{own: conn, slot: slot}
	}
	return outcome
}

// trespasses reports whether the table has another tenant's databases on the servers whose changes the session is told.
func (tr *tracking) trespasses(s *Session, table *route.Table) bool {
	return tr.bcast && !s.sharded && table.Shared(s.tenant)
}

// line is the connection.
func (pin *pinned) line() *pipe.Pipe {
	if pin.own != nil {
		return pin.own
	}
	return pin.conn.Pipe()
}
