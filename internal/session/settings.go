package session

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"github.com/sluiceproxy/sluice/internal/command"
	"github.com/sluiceproxy/sluice/internal/upstream"
)

// setting is a parameter that CONFIG GET shows. What is not listed is not shown: no address, file or password is among
// them.
type setting struct {
	name string
	// own is the proxy's value; nil: it is the backend's.
	own func(s *Session) string
	// otherwise is said when the backend does not tell; nil: then it is left out.
	otherwise *string
}

var (
	settingNo       = "no"         //nolint:gochecknoglobals // constant
	settingNothing  = ""           //nolint:gochecknoglobals // constant
	settingZero     = "0"          //nolint:gochecknoglobals // constant
	settingNoEvict  = "noeviction" //nolint:gochecknoglobals // constant
	settingEverySec = "everysec"   //nolint:gochecknoglobals // constant
)

// settings are in the order of their names.
var settings = []setting{ //nolint:gochecknoglobals // constant
	{"appendfsync", nil, &settingEverySec},
	{"appendonly", nil, &settingNo},
	{"busy-reply-threshold", nil, nil},
	{"client-query-buffer-limit", (*Session).queryBufferLimit, nil},
	{"cluster-enabled", (*Session).clusterSetting, nil},
	{"databases", (*Session).databaseCount, nil},
	{"hash-max-listpack-entries", nil, nil},
	{"hash-max-listpack-value", nil, nil},
	{"hash-max-ziplist-entries", nil, nil},
	{"hash-max-ziplist-value", nil, nil},
	{"lazyfree-lazy-eviction", nil, nil},
	{"lazyfree-lazy-expire", nil, nil},
	{"lazyfree-lazy-server-del", nil, nil},
	{"lazyfree-lazy-user-del", nil, nil},
	{"lazyfree-lazy-user-flush", nil, nil},
	{"lfu-decay-time", nil, nil},
	{"lfu-log-factor", nil, nil},
	{"list-compress-depth", nil, nil},
	{"list-max-listpack-size", nil, nil},
	{"list-max-ziplist-size", nil, nil},
	{"lua-time-limit", nil, nil},
	{"maxmemory", nil, &settingZero},
	{"maxmemory-policy", nil, &settingNoEvict},
	{"maxmemory-samples", nil, nil},
	{"notify-keyspace-events", nil, &settingNothing},
	{"proto-max-bulk-len", nil, nil},
	{"save", nil, &settingNothing},
	{"set-max-intset-entries", nil, nil},
	{"set-max-listpack-entries", nil, nil},
	{"set-max-listpack-value", nil, nil},
	{"stream-node-max-bytes", nil, nil},
	{"stream-node-max-entries", nil, nil},
	{"timeout", (*Session).timeoutSetting, nil},
	{"zset-max-listpack-entries", nil, nil},
	{"zset-max-listpack-value", nil, nil},
	{"zset-max-ziplist-entries", nil, nil},
	{"zset-max-ziplist-value", nil, nil},
}

// databaseCount is the highest database of SELECT and one, as clients take it.
func (s *Session) databaseCount() string {
	if s.slotted {
		return "1"
	}
	return strconv.Itoa(slices.Max(s.tenant.Databases) + 1)
}

func (s *Session) clusterSetting() string {
	if s.fronted {
		return "yes"
	}
	return settingNo
}

func (s *Session) timeoutSetting() string {
	return strconv.FormatInt(int64(s.worker.shared.Settings.IdleTimeout/time.Second), 10)
}

func (s *Session) queryBufferLimit() string {
	return strconv.Itoa(s.worker.shared.Settings.QueryBuffer)
}

// shownSetting is a setting that was asked for, under the name that the client used.
type shownSetting struct {
	*setting
	as string
}

// configCommand answers CONFIG GET and CONFIG HELP.
func (s *Session) configCommand(cmd *command.Command, args [][]byte) {
	if cmd.Name == "config|help" {
		s.replyLines(configHelp)
		return
	}
	shown := settingsLike(args[2:])
	if !slices.ContainsFunc(shown, func(x shownSetting) bool { return x.own == nil }) {
		s.replyLocal(s.appendSettings(shown, nil))
		return
	}
	if known, ok := s.local.Recall(settingsKey); ok {
		values, _ := known.(map[string]string)
		s.replyLocal(s.appendSettings(shown, values))
		return
	}
	s.learnSettings(func(values map[string]string, err error) []byte {
		if err != nil {
			return appendError(nil, errSettings(err))
		}
		return s.appendSettings(shown, values)
	})
}

// settingsLike finds what the patterns name, each once, as Redis does: a name without a star is shown as it was written.
func settingsLike(patterns [][]byte) (shown []shownSetting) {
	seen := make(map[*setting]bool)
	for _, pattern := range patterns {
		text := string(pattern)
		literal := !strings.ContainsAny(text, "[*?")
		for i := range settings {
			x := &settings[i]
			if seen[x] || literal && !strings.EqualFold(text, x.name) || !literal && !command.GlobFold(pattern, x.name) {
				continue
			}
			seen[x] = true
			as := x.name
			if literal {
				as = text
			}
			shown = append(shown, shownSetting{x, as})
		}
	}
	return shown
}

func (s *Session) appendSettings(shown []shownSetting, values map[string]string) []byte {
	var pairs []byte
	n := 0
	for _, x := range shown {
		value, ok := values[x.name]
		switch {
		case x.own != nil:
			value = x.own(s)
		case !ok && x.otherwise != nil:
			value = *x.otherwise
		case !ok:
			continue
		}
		pairs = redcon.AppendBulkString(redcon.AppendBulkString(pairs, x.as), value)
		n++
	}
	return append(s.appendMap(nil, n), pairs...)
}

// settingsFor is how long the backend's settings are taken to be what they were.
const settingsFor = 10 * time.Second

var settingsKey = []byte("settings") //nolint:gochecknoglobals // constant

// learnSettings has the backend asked for its settings and answers the command at hand with what answer makes of them.
func (s *Session) learnSettings(answer func(values map[string]string, err error) []byte) {
	p := s.newLocal()
	p.others++
	s.barrier = true
	s.local.Learn(upstream.Question{Key: string(settingsKey), Asker: s.tenant.Name, Answer: askSettings}, func(fact any, err error) {
		if p.session == nil {
			p.complete(nil)
			return
		}
		values, _ := fact.(map[string]string)
		p.complete(answer(values, err))
	})
}

// askSettings asks for all settings at once, as 7.0 takes it, else for those that matter, one by one. A backend that
// refuses CONFIG, as managed services do, may tell some of it in INFO.
func askSettings(ask upstream.Ask) (fact any, life time.Duration, err error) {
	values := make(map[string]string)
	question := []any{"CONFIG", "GET"}
	for i := range settings {
		if settings[i].own == nil {
			question = append(question, settings[i].name)
		}
	}
	reply, err := ask(question...)
	if err == nil {
		takePairs(values, reply)
		return values, settingsFor, nil
	}
	for i := range settings {
		if !errors.Is(err, upstream.ErrRefused) {
			return nil, 0, err
		}
		if x := &settings[i]; x.own == nil && x.otherwise != nil {
			var one any
			if one, err = ask("CONFIG", "GET", x.name); err == nil {
				takePairs(values, one)
				err = upstream.ErrRefused // of the many
			} else if len(values) == 0 {
				break
			}
		}
	}
	if !errors.Is(err, upstream.ErrRefused) {
		return nil, 0, err
	}
	if len(values) == 0 {
		if info, err := ask("INFO"); err == nil {
			takeInfo(values, info)
		}
	}
	return values, settingsFor, nil
}

func takePairs(values map[string]string, reply any) {
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		if value, ok := list[i+1].(string); ok {
			values[name] = value
		}
	}
}

func takeInfo(values map[string]string, reply any) {
	text, _ := reply.(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "maxmemory":
			values[name] = value
		case "maxmemory_policy":
			values["maxmemory-policy"] = value
		case "aof_enabled":
			if value == "1" {
				values["appendonly"] = "yes"
			}
		}
	}
}

var configHelp = []string{ //nolint:gochecknoglobals // constant
	"CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"GET <pattern>",
	"    Return parameters matching the glob-like <pattern> and their values, of",
	"    those that the proxy shows. SET, RESETSTAT and REWRITE are not available.",
	"HELP",
	"    Prints this help.",
}
