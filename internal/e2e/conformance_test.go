package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// eachExampleFile runs a test for each class of commands in both protocol versions, each time on empty servers.
func eachExampleFile(t *testing.T, run func(t *testing.T, p *pair, protocol int, examples []example)) {
	t.Parallel()
	p := startPair(t)
	for _, file := range exampleFiles(t) {
		examples := readExamples(t, file)
		for _, protocol := range []int{2, 3} {
			name := fmt.Sprintf("%s/RESP%d", strings.TrimSuffix(filepath.Base(file), ".txt"), protocol)
			t.Run(name, func(t *testing.T) {
				p.flush(t)
				run(t, p, protocol, examples)
			})
		}
	}
}

func TestRepliesEqualServer(t *testing.T) {
	eachExampleFile(t, func(t *testing.T, p *pair, protocol int, examples []example) {
		through, direct := p.dial(t, protocol)
		for i := range examples {
			e := &examples[i]
			e.requireSame(t, direct.Do(e.args...), through.Do(e.args...))
		}
	})
}

func TestPipelinedRepliesEqualServer(t *testing.T) {
	eachExampleFile(t, func(t *testing.T, p *pair, protocol int, examples []example) {
		through, direct := p.dial(t, protocol)
		var batch strings.Builder
		for i := range examples {
			batch.WriteString(redistest.Command(examples[i].args...))
		}
		through.Send(batch.String())
		direct.Send(batch.String())
		for i := range examples {
			examples[i].requireSame(t, direct.ReadReply(), through.ReadReply())
		}
	})
}

// TestServersHoldTheSameAfterExamples: commands that change something came through whole, so both servers end with the
// same keys.
func TestServersHoldTheSameAfterExamples(t *testing.T) {
	eachExampleFile(t, func(t *testing.T, p *pair, protocol int, examples []example) {
		through, direct := p.dial(t, protocol)
		for i := range examples {
			direct.Do(examples[i].args...)
			through.Do(examples[i].args...)
		}
		count := direct.Do("DBSIZE")
		require.Equal(t, string(count), string(p.backend.Do("DBSIZE")))
		keys := example{text: "KEYS *", as: unordered}
		keys.requireSame(t, p.direct.Do("KEYS", "*"), p.backend.Do("KEYS", "*"))
	})
}
