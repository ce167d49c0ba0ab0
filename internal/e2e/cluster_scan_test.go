package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

// scanner is one walk of a client over the keyspace.
type scanner struct {
	t      *testing.T
	conn   *redistest.Conn
	cursor string
	seen   map[string]int
	steps  int
}

func newScanner(t *testing.T, conn *redistest.Conn) *scanner {
	return &scanner{t: t, conn: conn, cursor: "0", seen: map[string]int{}}
}

// step is one SCAN; done tells that the walk has ended.
func (s *scanner) step(options ...string) (done bool) {
	s.t.Helper()
	reply := s.conn.Do(append([]string{"SCAN", s.cursor}, options...)...)
	header, elements := aggregate(reply)
	require.Equal(s.t, "*2\r\n", header, "%q", reply)
	s.cursor = bulkText(elements[0])
	number, err := strconv.ParseInt(s.cursor, 10, 64) // also for clients that read it as a signed number
	require.NoError(s.t, err)
	require.Equal(s.t, strconv.FormatInt(number, 10), s.cursor)
	_, keys := aggregate([]byte(elements[1]))
	for _, key := range keys {
		s.seen[bulkText(key)]++
	}
	s.steps++
	require.Less(s.t, s.steps, 100_000, "the walk does not end")
	return number == 0
}

// finish goes on to the end and returns the keys, each once.
func (s *scanner) finish(options ...string) []string {
	s.t.Helper()
	for !s.step(options...) {
		continue
	}
	keys := make([]string, 0, len(s.seen))
	for key := range s.seen {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// bulkText is the text in an encoded bulk string.
func bulkText(encoded string) string {
	_, text, _ := strings.Cut(encoded, "\r\n")
	return strings.TrimSuffix(text, "\r\n")
}

// fill sets n keys and returns them sorted.
func fill(t *testing.T, c *redistest.Conn, name string, n int) []string {
	t.Helper()
	keys := make([]string, n)
	args := []string{"MSET"}
	for i := range keys {
		keys[i] = fmt.Sprint(name, ":", i)
		args = append(args, keys[i], "v")
	}
	require.Equal(t, "+OK\r\n", string(c.Do(args...)))
	slices.Sort(keys)
	return keys
}

func TestClusterScan(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	single := redistest.Standalone(t)
	p := clusterProxy(t, servers, "")
	for _, protocol := range []int{2, 3} {
		through, direct := hello(t, p.Addr, protocol), hello(t, single.Addr(), protocol)
		require.Empty(t, newScanner(t, through).finish(), "an empty cluster")
		keys := fill(t, through, "plain", 2000)
		require.Equal(t, keys, newScanner(t, through).finish())
		walk := newScanner(t, through)
		require.Equal(t, keys, walk.finish("COUNT", "100000"))
		require.Equal(t, 4, walk.steps, "one for each node, and one to judge")
		through.Do("LPUSH", "list:1", "x")
		through.Do("LPUSH", "list:2", "x")
		through.Do("SADD", "set:1", "x")
		require.Equal(t, []string{"list:1", "list:2"}, newScanner(t, through).finish("TYPE", "list", "COUNT", "7"))
		require.Equal(t, []string{"list:1", "set:1"}, newScanner(t, through).finish("MATCH", "*t:1"))
		require.Equal(t, []string{"list:1"}, newScanner(t, through).finish("match", "*t:1", "type", "LIST", "count", "500"))
		for _, line := range []string{
			"SCAN x", "SCAN 18446744073709551616", "SCAN 1.5", "SCAN 0x1", "SCAN - COUNT 5", "SCAN 0 MATCH", "SCAN 0 COUNT x", "SCAN 0 COUNT 0",
			"SCAN 0 NOSUCH y", "SCAN",
		} {
			args := strings.Fields(line)
			require.Equal(t, string(direct.Do(args...)), string(through.Do(args...)), line)
		}
		require.Equal(t, string(direct.Do("SCAN", " 1")), string(through.Do("SCAN", " 1")))
		for _, odd := range []string{"-1", "+1", "007", "1", "18446744073709551615", "9223372036854775807", ""} {
			walk := newScanner(t, through)
			walk.cursor = odd
			walk.finish() // any number is a cursor; the walk ends
		}
		require.Equal(t, "+OK\r\n", string(through.Do("FLUSHALL")))
	}
	through := hello(t, p.Addr, 2)
	require.Equal(t, "+OK\r\n", string(through.Do("MULTI")))
	require.Equal(t, "+QUEUED\r\n", string(through.Do("SCAN", "0")))
	require.Regexp(t, `^\*1\r\n\*2\r\n\$`, string(through.Do("EXEC")))
}

// byID are the primaries in the order in which a walk goes over them.
func byID(servers *redistest.ClusterServers) []*redistest.Server {
	sorted := slices.Clone(servers.Primaries)
	slices.SortFunc(sorted, func(a, b *redistest.Server) int { return cmp.Compare(servers.ID(a), servers.ID(b)) })
	return sorted
}

// busySlot is a slot of the server's with keys, which are returned too.
func busySlot(t *testing.T, servers *redistest.ClusterServers, of *redistest.Server, keys []string) (slot int, inSlot []string) {
	t.Helper()
	for _, key := range keys {
		if slot := servers.Slot(key); servers.NodeForSlot(slot) == of {
			_, tagged, _ := strings.Cut(key, "{")
			tag, _, _ := strings.Cut(tagged, "}")
			for _, other := range keys {
				if strings.Contains(other, "{"+tag+"}") {
					inSlot = append(inSlot, other)
				}
			}
			return slot, inSlot
		}
	}
	t.Fatal("the server has no keys")
	return 0, nil
}

// tagged sets n keys for each of several hash tags.
func tagged(t *testing.T, c *redistest.Conn, tags, n int) (keys []string) {
	t.Helper()
	for tag := range tags {
		for i := range n {
			key := fmt.Sprintf("{tag%d}%d", tag, i)
			require.Equal(t, "+OK\r\n", string(c.Do("SET", key, "v")))
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestClusterScanWhileKeysMove moves keys out of the way of a walk: from a node that it has not seen to one that it has.
func TestClusterScanWhileKeysMove(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 2)
	keys := tagged(t, c, 30, 20)
	order := byID(servers)
	for name, way := range map[string]struct{ from, to int }{"back": {2, 0}, "forth": {0, 2}, "next": {1, 0}} {
		from, to := order[way.from], order[way.to]
		for _, end := range []string{"finished before the end", "finished behind the end", "finished at once"} {
			t.Run(name+" "+end, func(t *testing.T) {
				slot, inSlot := busySlot(t, servers, from, keys)
				walk := newScanner(t, c)
				for range way.from { // the nodes before it
					require.False(t, walk.step("COUNT", "100000"))
				}
				walk.requireUnseen(inSlot)
				migration := servers.StartMigration(slot, from, to)
				migration.MoveKey(inSlot[:len(inSlot)/2]...)
				walk.step("COUNT", "2")
				switch end {
				case "finished before the end":
					walk.step("COUNT", "2")
					migration.MoveKey(inSlot...)
					migration.Finish()
					require.Equal(t, keys, walk.finish("COUNT", "50"))
				case "finished at once":
					migration.Finish()
					require.Equal(t, keys, walk.finish("COUNT", "50"))
				default:
					require.Equal(t, keys, walk.finish("COUNT", "50"))
					require.Equal(t, keys, newScanner(t, c).finish("COUNT", "3"), "while the slot stays open")
					migration.Finish()
				}
				require.Equal(t, keys, newScanner(t, c).finish())
				servers.MoveSlot(slot, to, from)
			})
		}
	}
}

func (s *scanner) requireUnseen(keys []string) {
	s.t.Helper()
	for _, key := range keys {
		require.Zero(s.t, s.seen[key], key)
	}
}

// TestClusterScanToEmptyNode moves keys to a node that serves no slot yet.
func TestClusterScanToEmptyNode(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	empty := servers.Primaries[2]
	for _, s := range servers.Primaries {
		require.Equal(t, "+OK\r\n", string(s.Do("CLUSTER", "DELSLOTSRANGE", "10922", "16383")))
	}
	require.Equal(t, "+OK\r\n", string(servers.Primaries[0].Do("CLUSTER", "ADDSLOTSRANGE", "10922", "16383")))
	servers.AwaitSettled()
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 3)
	keys := tagged(t, c, 10, 10)
	slot, inSlot := busySlot(t, servers, servers.Primaries[0], keys)
	migration := servers.StartMigration(slot, servers.Primaries[0], empty)
	migration.MoveKey(inSlot...)
	require.Equal(t, keys, newScanner(t, c).finish())
	require.Equal(t, fmt.Sprintf(":%d\r\n", len(keys)), string(c.Do("DBSIZE")))
	require.Len(t, keysOf(c, "*"), len(keys))
	migration.Finish()
	require.Equal(t, keys, newScanner(t, c).finish())
}

func keysOf(c *redistest.Conn, pattern string) (keys []string) {
	_, elements := aggregate(c.Do("KEYS", pattern))
	for _, e := range elements {
		keys = append(keys, bulkText(e))
	}
	slices.Sort(keys)
	return keys
}

// TestClusterScanUnderResharding walks on and on while slots move at random.
func TestClusterScanUnderResharding(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 0)
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 2)
	keys := tagged(t, c, 40, 10)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	for range 12 {
		walk := newScanner(t, c)
		done := false
		for range 6 {
			slot := servers.Slot(keys[random.IntN(len(keys))])
			from := servers.NodeForSlot(slot)
			to := servers.Primaries[random.IntN(3)]
			if from == to {
				continue
			}
			migration := servers.StartMigration(slot, from, to)
			for range random.IntN(6) {
				migration.MoveKeys(1 + random.IntN(4))
				for range random.IntN(5) {
					done = done || walk.step("COUNT", strconv.Itoa(1+random.IntN(60)))
				}
			}
			if done { // the slot is still open
				walk.requireAll(keys)
				walk, done = newScanner(t, c), false
			}
			migration.Finish()
			if done = walk.step("COUNT", "20"); done {
				walk.requireAll(keys)
				walk, done = newScanner(t, c), false
			}
		}
		require.Equal(t, keys, walk.finish("COUNT", "40"))
	}
}

func (s *scanner) requireAll(keys []string) {
	s.t.Helper()
	for _, key := range keys {
		require.Positive(s.t, s.seen[key], "%s was there throughout and has not been returned", key)
	}
}

// TestClusterScanAcrossFailover: the cursor of the old primary means nothing to the new one.
func TestClusterScanAcrossFailover(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t, 3, 3)
	p := clusterProxy(t, servers, "")
	c := hello(t, p.Addr, 2)
	keys := fill(t, c, "key", 3000)
	for _, primary := range servers.Primaries {
		require.Equal(t, ":1\r\n", string(primary.Do("WAIT", "1", "10000")))
	}
	for i, primary := range byID(servers) {
		walk := newScanner(t, c)
		for walk.steps < 20+60*i {
			walk.step("COUNT", "20")
		}
		servers.Failover(primary)
		require.Equal(t, keys, walk.finish("COUNT", "200"))
	}
}
