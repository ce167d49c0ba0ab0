package route

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/tenant"
	"github.com/sluiceproxy/sluice/pkg/slot"
)

// argsOf cuts a line at blanks; _ stands for an empty argument.
func argsOf(line string) [][]byte {
	var args [][]byte
	for _, word := range strings.Fields(line) {
		if word == "_" {
			word = ""
		}
		args = append(args, []byte(word))
	}
	return args
}

// resolved finds the command of args as a session does.
func resolved(t testing.TB, args [][]byte) *command.Command {
	t.Helper()
	cmd := command.Lookup(args[0])
	require.NotNil(t, cmd, "%s", args[0])
	cmd, err := cmd.Resolve(args)
	require.NoError(t, err)
	require.True(t, cmd.CheckArity(len(args)), "arity of %q", args)
	return cmd
}

func decide(t testing.TB, line string, mode tenant.CrossSlot) (Decision, int32) {
	t.Helper()
	args := argsOf(line)
	d, at, _ := Decide(resolved(t, args), args, mode, nil)
	return d, at
}

func TestDecideForwardsToTheSlotOfTheKeys(t *testing.T) {
	for line, key := range map[string]string{
		"GET a":                               "a",
		"SET {x}a v EX 10":                    "x",
		"HSET h f v":                          "h",
		"MGET {t}1 {t}2 {t}3":                 "t",
		"MSET {t}1 v {t}2 w":                  "t",
		"DEL {t}1 {t}2":                       "t",
		"RENAME {t}1 {t}2":                    "t",
		"SINTERSTORE {t}d {t}1 {t}2":          "t",
		"EVAL script 2 {t}1 {t}2 arg":         "t",
		"EVALSHA 00 1 k a b c":                "k",
		"FCALL f 1 k a":                       "k",
		"XREAD COUNT 2 STREAMS {t}a {t}b 0 0": "t",
		"XGROUP CREATE s g $":                 "s",
		"ZUNIONSTORE {t}d 2 {t}1 {t}2":        "t",
		"ZUNION 2 {t}1 {t}2 WITHSCORES":       "t",
		"SORT {t}l STORE {t}d":                "t",
		"GEORADIUS {t}g 1 2 3 km STORE {t}d":  "t",
		"GEOSEARCHSTORE {t}d {t}s FROMMEMBER m BYRADIUS 1 km": "t",
		"LMPOP 2 {t}1 {t}2 LEFT":                              "t",
		"BITOP AND {t}d {t}1 {t}2":                            "t",
		"OBJECT ENCODING k":                                   "k",
		"MEMORY USAGE k":                                      "k",
		"SPUBLISH channel message":                            "channel",
		"COPY {t}a {t}b":                                      "t",
		"PFMERGE {t}a {t}b":                                   "t",
		"LCS {t}a {t}b":                                       "t",
		"SET _ v":                                             "",
		"MIGRATE host 6379 _ 0 100 KEYS {t}a {t}b":            "t",
	} {
		for _, mode := range []tenant.CrossSlot{tenant.Split, tenant.Error} {
			d, at := decide(t, line, mode)
			require.Equal(t, Forward, d, line)
			require.EqualValues(t, slot.Of([]byte(key)), at, line)
		}
	}
}

func TestDecideOfKeysInSeveralSlots(t *testing.T) {
	for line, want := range map[string]Decision{
		"MGET a b": Split, "MSET a 1 b 2": Split, "DEL a b": Split, "UNLINK a b": Split, "EXISTS a b": Split, "TOUCH a b": Split,
		"MSETNX a 1 b 2": CrossSlot, "RENAME a b": CrossSlot, "RENAMENX a b": CrossSlot, "COPY a b": CrossSlot,
		"SINTER a b": CrossSlot, "SUNION a b": CrossSlot, "SDIFF a b": CrossSlot, "SINTERSTORE a b c": CrossSlot,
		"SUNIONSTORE a b c": CrossSlot, "SDIFFSTORE a b c": CrossSlot, "SMOVE a b m": CrossSlot, "SINTERCARD 2 a b": CrossSlot,
		"ZUNIONSTORE d 2 a b": CrossSlot, "ZINTERSTORE d 2 a b": CrossSlot, "ZDIFFSTORE d 2 a b": CrossSlot,
		"ZRANGESTORE a b 0 -1": CrossSlot, "ZUNION 2 a b": CrossSlot, "LMOVE a b LEFT LEFT": CrossSlot, "RPOPLPUSH a b": CrossSlot,
		"LMPOP 2 a b LEFT": CrossSlot, "ZMPOP 2 a b MIN": CrossSlot, "PFCOUNT a b": CrossSlot, "PFMERGE a b": CrossSlot,
		"BITOP AND d a b": CrossSlot, "EVAL s 2 a b": CrossSlot, "XREAD STREAMS a b 0 0": CrossSlot, "SORT a STORE b": CrossSlot,
		"GEORADIUS a 1 2 3 km STORE b": CrossSlot, "GEORADIUSBYMEMBER a m 3 km STOREDIST b": CrossSlot, "LCS a b": CrossSlot,
		"MIGRATE host 6379 _ 0 100 KEYS a b": CrossSlot,
	} {
		d, _ := decide(t, line, tenant.Split)
		require.Equal(t, want, d, line)
		d, _ = decide(t, line, tenant.Error)
		require.Equal(t, CrossSlot, d, "%s with cross_slot: error", line)
	}
}

func TestDecideOfCommandsWithoutKeys(t *testing.T) {
	for line, want := range map[string]Decision{
		"PUBLISH c m": Forward, "EVAL s 0": Forward, "EVALSHA 00 0 a": Forward, "FCALL f 0": Forward, "LOLWUT": Forward,
		"DBSIZE": OneNode, "KEYS *": OneNode, "SCAN 0": OneNode, "RANDOMKEY": OneNode, "FLUSHALL": OneNode, "FLUSHDB": OneNode,
		"SCRIPT LOAD s": OneNode, "FUNCTION LIST": OneNode, "PUBSUB CHANNELS": OneNode, "LASTSAVE": OneNode,
	} {
		d, at := decide(t, line, tenant.Split)
		require.Equal(t, want, d, line)
		require.Equal(t, NoSlot, at, line)
	}
}

// Lines whose keys cannot be found are refused by whatever node gets them, in Redis's own words.
func TestDecideForwardsLinesWithoutFindableKeys(t *testing.T) {
	for _, line := range []string{"EVAL s x a", "EVAL s -1 a", "EVAL s 5 a", "ZUNIONSTORE d x a", "XREAD COUNT 1 a b", "SINTERCARD 9 a", "LMPOP 0 a LEFT"} {
		d, at := decide(t, line, tenant.Split)
		if at == NoSlot {
			require.Equal(t, Forward, d, line)
		} else {
			require.NotEqual(t, Split, d, line)
		}
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	keys := make([]int, 0, 16)
	for _, line := range []string{"GET a", "SET a b", "MGET {t}a {t}b {t}c", "EVAL s 2 {t}a {t}b", "MGET a b"} {
		args := argsOf(line)
		cmd := resolved(t, args)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _, keys = Decide(cmd, args, tenant.Split, keys) }), line)
	}
}
