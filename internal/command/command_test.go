package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLookupFindsEveryCommandInAnyCase(t *testing.T) {
	for id, c := range All() {
		require.Equal(t, id, c.ID)
		if c.Parent != nil {
			require.Nil(t, Lookup([]byte(c.Name)), "a subcommand is no command: %s", c.Name)
			continue
		}
		upper := strings.ToUpper(c.Name)
		require.Same(t, c, Lookup([]byte(c.Name)))
		require.Same(t, c, Lookup([]byte(upper)))
		require.Same(t, c, Lookup([]byte(upper[:1]+c.Name[1:])))
		require.Nil(t, Lookup([]byte(c.Name+"_")))
		require.Nil(t, Lookup([]byte(c.Name+"\x00")))
	}
	require.Equal(t, len(All()), Count())
}

func TestLookupUnknown(t *testing.T) {
	for _, name := range []string{"", "g", "ge", "gut", "nosuch", "config|get", "G\x05T", "zset\r\n", strings.Repeat("get", 1000)} {
		require.Nil(t, Lookup([]byte(name)), "%q", name)
	}
	require.Nil(t, Lookup(nil))
}

func TestLookupProbesAreShort(t *testing.T) {
	require.Less(t, len(catalog.commands())*3, slotCount, "the hash table must stay sparse")
	for _, name := range []string{"get", "set", "incr", "mget", "mset", "del", "hget", "hset", "hgetall", "lpush", "zadd", "expire", "ping"} {
		require.Equal(t, name, catalog.slots[hash(pack([]byte(name)), len(name))].command.Name, "a hot command is found at the first probe")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	name, sub := []byte("GEORADIUSBYMEMBER_RO"), line("OBJECT", "Encoding", "k")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = Lookup(name)
		_, _ = Lookup(sub[0]).Resolve(sub)
	}))
}

func TestResolve(t *testing.T) {
	config := Lookup([]byte("CONFIG"))
	get, err := config.Resolve(line("CONFIG", "GeT", "x"))
	require.NoError(t, err)
	require.Equal(t, "config|get", get.Name)
	require.Same(t, config, get.Parent)
	require.Contains(t, config.Subcommands, get)

	alone, err := config.Resolve(line("CONFIG"))
	require.NoError(t, err)
	require.Same(t, config, alone)
	require.False(t, alone.CheckArity(1))

	plain, err := Lookup([]byte("get")).Resolve(line("get", "help"))
	require.NoError(t, err)
	require.Equal(t, "get", plain.Name)

	_, err = config.Resolve(line("config", "nope"))
	var reply *ReplyError
	require.ErrorAs(t, err, &reply)
	require.Equal(t, "unknown subcommand 'nope'. Try CONFIG HELP.", reply.Text)
}

func TestCheckArity(t *testing.T) {
	get, set := Lookup([]byte("get")), Lookup([]byte("set"))
	require.True(t, get.CheckArity(2))
	require.False(t, get.CheckArity(1))
	require.False(t, get.CheckArity(3))
	require.False(t, set.CheckArity(2))
	require.True(t, set.CheckArity(3))
	require.True(t, set.CheckArity(9))
	require.True(t, Lookup([]byte("zrank")).CheckArity(4), "WITHSCORE of newer servers")
}

func TestKinds(t *testing.T) {
	want := map[Kind]string{
		KindLocal: "acl|cat acl|genpass acl|help acl|whoami config|get config|help asking auth client|getname client|help client|id client|info client|kill client|list client|no-evict client|no-touch " +
			"client|pause client|reply client|setinfo client|setname client|unblock client|unpause client " +
			"cluster cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports cluster|countkeysinslot cluster|delslots " +
			"cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget cluster|getkeysinslot cluster|help cluster|info " +
			"cluster|keyslot cluster|links cluster|meet cluster|myid cluster|myshardid cluster|nodes cluster|replicas cluster|replicate " +
			"cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot cluster|shards cluster|slaves cluster|slots command command|count command|docs command|getkeys " +
			"command|getkeysandflags command|help command|info command|list echo hello info latency latency|doctor latency|graph latency|help latency|histogram latency|history " +
			"latency|latest latency|reset monitor ping quit readonly readwrite reset role select slowlog slowlog|get slowlog|help slowlog|len slowlog|reset time",
		KindFanOut: "dbsize flushall flushdb function|delete function|dump function|flush function|kill function|list function|load " +
			"function|restore function|stats keys lastsave pubsub|channels pubsub|numpat pubsub|numsub pubsub|shardchannels " +
			"pubsub|shardnumsub memory|doctor memory|stats randomkey scan script|exists script|flush script|kill script|load script|show",
		KindPublish: "publish spublish",
		KindSplit:   "del exists mget mset touch unlink",
		KindDedicated: "blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin client|caching client|getredir client|tracking " +
			"client|trackinginfo discard exec multi psubscribe punsubscribe ssubscribe subscribe sunsubscribe " +
			"unsubscribe unwatch wait waitaof watch",
	}
	got := map[Kind][]string{}
	for _, c := range All() {
		got[c.Kind] = append(got[c.Kind], c.Name)
	}
	for kind, names := range want {
		require.ElementsMatch(t, strings.Fields(names), got[kind], kind.String())
	}
	for _, name := range []string{"config", "config|set", "debug", "shutdown", "replicaof", "script|debug", "memory|purge"} {
		require.Contains(t, got[KindAdmin], name)
	}
	for _, c := range All() {
		if c.Kind == KindForward && c.Flags&Admin != 0 {
			t.Errorf("%s is forwarded and for administrators", c.Name)
		}
		if c.Kind == KindForward && c.Flags&Blocking != 0 {
			require.Contains(t, []string{"xread", "xreadgroup"}, c.Name, "blocks a shared connection")
		}
	}
}

func TestKindForBlockOption(t *testing.T) {
	for text, want := range map[string]Kind{
		"xread streams s 0":                                KindForward,
		"xread count 1 streams s 0":                        KindForward,
		"XREAD BLOCK 0 STREAMS s 0":                        KindDedicated,
		"xread count 1 block 0 streams s 0":                KindDedicated,
		"xread count block streams s 0":                    KindForward,
		"xread streams block 0":                            KindForward,
		"xreadgroup group block c streams s >":             KindForward,
		"xreadgroup group g block streams s >":             KindForward,
		"xreadgroup group g c noack block 1 streams s >":   KindDedicated,
		"xreadgroup group g c claim 9 block 0 streams s >": KindDedicated,
		"blpop k 0": KindDedicated,
		"get block": KindForward,
	} {
		args := line(strings.Fields(text)...)
		require.Equal(t, want, Lookup(args[0]).KindFor(args), text)
	}
}

func TestAnyNode(t *testing.T) {
	var got []string
	for _, c := range All() {
		if c.AnyNode {
			got = append(got, c.Name)
		}
	}
	require.ElementsMatch(t, strings.Fields("eval eval_ro evalsha evalsha_ro fcall fcall_ro lolwut publish function|help memory|help "+
		"object|help pubsub|help script|help xgroup|help xinfo|help"), got)
}

func TestClasses(t *testing.T) {
	for name, want := range map[string]string{
		"get": "string", "hset": "hash", "lpush": "list", "sadd": "set", "zadd": "sorted-set", "xadd": "stream", "del": "generic",
		"setbit": "bitmap", "pfadd": "hyperloglog", "geoadd": "geo", "eval": "scripting", "publish": "pubsub", "multi": "transactions",
		"ping": "connection", "info": "server", "cluster": "cluster", "httl": "hash",
	} {
		require.Equal(t, want, Lookup([]byte(name)).Class.String(), name)
	}
	require.Equal(t, "other", Class(200).String())
	require.Equal(t, "unknown", Kind(200).String())
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"GET", "set", "HGETALL", "GEORADIUSBYMEMBER_RO", "nosuchcommand"} {
		b.Run(name, func(b *testing.B) {
			asked := []byte(name)
			b.ReportAllocs()
			for b.Loop() {
				Lookup(asked)
			}
		})
	}
}
