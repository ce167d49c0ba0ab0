package route

import (
	"bytes"

	"github.com/sluiceproxy/sluice/pkg/resp"
)

// For notes the client's command line, of parts that are other commands than that.
func (g *Gather) For(args [][]byte) *Gather {
	g.line = make([][]byte, len(args))
	for i, arg := range args {
		g.line[i] = bytes.Clone(arg)
	}
	return g
}

// Command is the command line that the parts are of, with the keys in their order.
func (g *Gather) Command() [][]byte {
	if g.line != nil {
		return g.line
	}
	if len(g.Parts) == 0 {
		return nil
	}
	first := resp.AppendArgs(nil, g.Parts[0].Request)
	if g.merge == mergeJoin {
		return first
	}
	width := 1
	if g.merge == mergeOK {
		width = 2
	}
	all := make([][]byte, 1+g.keys*width)
	all[0] = first[0]
	for i := range g.Parts {
		args := resp.AppendArgs(nil, g.Parts[i].Request)[1:]
		for j, k := range g.Parts[i].keys {
			copy(all[1+k*width:1+(k+1)*width], args[min(j*width, len(args)):])
		}
	}
	return all
}
