package session

import (
	"strconv"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/route"
	"github.com/sluiceproxy/sluice/internal/upstream"
	"github.com/sluiceproxy/sluice/pkg/resp"
)

// walk is one step of a SCAN over all primaries, by the order of their ids. See docs/adr/0009 for why no element is missed.
type walk struct {
	session *Session
	local   *upstream.Local
	nodes   []upstream.Primary
	ids     []string
	at      route.Cursor
}

// walkKeys serves SCAN on a sharded cluster: one step is a SCAN of one node, or the judgement of a pass over all.
func (s *Session) walkKeys(cmd *command.Command, args [][]byte) bool {
	number, ok := route.ParseCursor(args[1])
	if !ok {
		return s.refuse(errCursor)
	}
	w := &walk{session: s, local: s.local, nodes: s.local.Primaries()}
	if len(w.nodes) == 0 {
		return s.refuse(errNotSent(upstream.Uncovered, false))
	}
	for _, node := range w.nodes {
		w.ids = append(w.ids, node.ID)
	}
	at, ok := route.DecodeCursor(number, w.ids)
	w.at = at
	switch {
	case !ok: // 0, a number of somebody's own, or nodes have come or gone
		w.at = route.Cursor{}
		s.scatter(cmd, w.gather(w.begin, w.ask(0, route.NodesAsKnown), w.step(args)).For(args))
	case at.Rank == len(w.nodes):
		parts := make([]route.Part, len(w.nodes))
		for i := range parts {
			parts[i] = w.ask(i, route.NodesAsSeen)
		}
		s.scatter(cmd, w.gather(w.judge, parts...).For(args))
	default:
		s.scatter(cmd, w.gather(w.goOn, w.step(args)).For(args))
	}
	return true
}

func (w *walk) gather(merge route.Merge, parts ...route.Part) *route.Gather {
	return route.Ask(parts, w.session.worker.shared.Settings.OutputBuffer, func(dst []byte, replies [][]byte) []byte {
		if e := route.FirstError(replies); e != nil {
			return append(dst, e...)
		}
		return merge(dst, replies)
	})
}

var clusterNodes = []byte("*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n") //nolint:gochecknoglobals // constant

// ask is the part that asks a node of the cluster's state.
func (w *walk) ask(rank int, reduce func([]byte) []byte) route.Part {
	return route.Part{Slot: w.nodes[rank].Slot, Request: clusterNodes, Reduce: reduce}
}

// step is the part that asks the node at hand for elements.
func (w *walk) step(args [][]byte) route.Part {
	request := redcon.AppendArray(nil, len(args))
	request = redcon.AppendBulk(request, args[0])
	request = redcon.AppendBulkString(request, strconv.FormatUint(w.at.Node, 10))
	for _, arg := range args[2:] {
		request = redcon.AppendBulk(request, arg)
	}
	return route.Part{Slot: w.nodes[w.at.Rank].Slot, Request: request}
}

// begin answers the first step of a walk: what the first node knows, and its first elements.
func (w *walk) begin(dst []byte, replies [][]byte) []byte {
	w.at.Owners = route.OwnersKnown(replies[0], w.ids)
	return w.goOn(dst, replies[1:])
}

// goOn answers with a node's elements.
func (w *walk) goOn(dst []byte, replies [][]byte) []byte {
	next, elements, ok := cutScan(replies[0])
	if !ok {
		return appendError(dst, errUnexpectedScan)
	}
	to := w.at
	if !w.local.Stands(w.nodes[to.Rank]) {
		return w.answer(dst, to, elements) // from another node's table: the same place again, where the change is noticed
	}
	if to.Node = next; next == 0 {
		to.Rank++
	}
	return w.answer(dst, to, elements)
}

// judge answers at the end of a pass: the walk has ended if no element can have been missed, else there is another pass.
func (w *walk) judge(dst []byte, replies [][]byte) []byte {
	seen := route.OwnersSeen(replies, w.ids)
	same := w.at.SameOwners(seen.Owners, w.ids)
	if seen.Strangers {
		w.local.Cluster().RequestRefresh()
	}
	if same && !seen.Strangers && (!seen.Moving || w.at.Repeated) {
		return append(dst, scanEnded...)
	}
	return w.answer(dst, route.Cursor{Owners: seen.Owners, Repeated: same && !seen.Strangers}, noElements)
}

var (
	scanEnded  = []byte("*2\r\n$1\r\n0\r\n*0\r\n") //nolint:gochecknoglobals // constant
	noElements = []byte("*0\r\n")                  //nolint:gochecknoglobals // constant
)

func (w *walk) answer(dst []byte, to route.Cursor, elements []byte) []byte {
	number, ok := to.Encode(w.ids)
	if !ok {
		return appendError(dst, errCursorTooLarge)
	}
	dst = redcon.AppendBulkString(redcon.AppendArray(dst, 2), strconv.FormatUint(number, 10))
	return append(dst, elements...)
}

// cutScan takes a node's reply to SCAN apart.
func cutScan(reply []byte) (cursor uint64, elements []byte, ok bool) {
	count, n, ok := resp.ArrayHeader(reply)
	if !ok || count != 2 {
		return 0, nil, false
	}
	length, err := resp.ReplyLen(reply[n:])
	if err != nil || length == 0 {
		return 0, nil, false
	}
	text, ok := route.Text(reply[n : n+length])
	if !ok {
		return 0, nil, false
	}
	cursor, err = strconv.ParseUint(string(text), 10, 64)
	return cursor, reply[n+length:], err == nil
}
