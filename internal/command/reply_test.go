package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ours gives the rows that the server has too; arities that the overlay widened are left out.
func ours() []*Command {
	widened := []string{"zrank", "zrevrank"}
	return slices.DeleteFunc(slices.Clone(All()), func(c *Command) bool { return c.Added || slices.Contains(widened, c.Name) })
}

func TestInfoAndDocsOfEachCommandEqualServer(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		server := startServer(t, protocol)
		for _, subcommand := range []string{"INFO", "DOCS"} {
			var questions [][][]byte
			for _, c := range ours() {
				if len(c.Subcommands) == 0 {
					questions = append(questions, line("COMMAND", subcommand, c.Name))
				}
			}
			questions = append(questions, line("command", subcommand, "GET", "nosuch", "Config|Get", "set", "config|", "get|x", "config|get|x", ""))
			requireSameReplies(t, server, protocol, questions)
		}
	}
}

func TestWholeReplyEqualsServer(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		server := startServer(t, protocol)
		for _, question := range []string{"COMMAND", "COMMAND INFO"} {
			args := line(strings.Fields(question)...)
			want := infoTree(parseReply(t, server.Do(words(args)...)))
			got := infoTree(parseReply(t, AppendReply(nil, args, protocol)))
			require.Equal(t, want.render(""), got.render(""), question)
		}
		args := line("COMMAND", "DOCS")
		want := docsTree(parseReply(t, server.Do(words(args)...)))
		got := docsTree(parseReply(t, AppendReply(nil, args, protocol)))
		require.Equal(t, want.render(""), got.render(""))
	}
}

// infoTree normalises a list of command entries: sorted, without what only we or newer servers know.
func infoTree(n node) node {
	n.children = slices.DeleteFunc(n.children, func(entry node) bool { return unlikeServer(entry.name()) })
	for i := range n.children {
		entry := n.children[i].children
		entry[9] = infoTree(entry[9])
	}
	return n.sorted(1)
}

// docsTree does the same for a map of name to documentation.
func docsTree(n node) node {
	var kept []node
	for pair := range slices.Chunk(n.children, 2) {
		if unlikeServer(pair[0].name()) {
			continue
		}
		fields := pair[1].children
		for i := 0; i < len(fields); i += 2 {
			if fields[i].name() == "subcommands" {
				fields[i+1] = docsTree(fields[i+1])
			}
		}
		kept = append(kept, pair...)
	}
	return node{text: n.text, children: kept}.sorted(2)
}

func unlikeServer(name string) bool {
	c := catalog.lookupFull([]byte(name))
	return c != nil && !slices.Contains(ours(), c)
}

func TestListEqualsServer(t *testing.T) {
	server := startServer(t, 3)
	for _, question := range []string{
		"COMMAND LIST", "command list filterby aclcat scripting", "command list filterby ACLCAT Dangerous", "command list filterby aclcat nope",
		"command list filterby module any", "command list FILTERBY pattern x*", "command list filterby pattern *", "command list filterby pattern G[E-f]*",
		"command list filterby pattern *[^a-z|]*", "command list filterby pattern z?????", `command list filterby pattern \g\et`,
		"command list filterby pattern [", "command list filterby pattern config|*t", "command list filterby pattern *a*b*c*", "command list filterby pattern [xz]a*[d-",
	} {
		args := line(strings.Fields(question)...)
		want, got := names(t, server.Do(words(args)...)), names(t, AppendReply(nil, args, 3))
		require.ElementsMatch(t, want, got, question)
	}
}

// names reads a list of names that the server can know.
func names(t *testing.T, reply []byte) []string {
	var list []string
	for _, child := range parseReply(t, reply).children {
		if c := catalog.lookupFull([]byte(child.name())); c == nil || !c.Added {
			list = append(list, child.name())
		}
	}
	return list
}

func TestSmallRepliesEqualServer(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		var questions [][][]byte
		for _, text := range []string{
			"command help", "COMMAND HELP x", "command count x", "command nosuch", "command getkeys", "command getkeys get",
			"command list filterby", "command list filterby x y", "command list x", "command list filterby aclcat a filterby aclcat b",
			"command info nosuch", "command docs nosuch", "command info get|x",
		} {
			questions = append(questions, line(strings.Fields(text)...))
		}
		requireSameReplies(t, startServer(t, protocol), protocol, questions)
	}
}

func TestCountTellsCommandsOnly(t *testing.T) {
	commands := len(parseReply(t, AppendReply(nil, line("COMMAND"), 2)).children)
	require.Equal(t, ":"+itoa(commands)+"\r\n", string(AppendReply(nil, line("COMMAND", "COUNT"), 2)))
	require.Less(t, commands, Count())
}

func TestEveryCommandIsDocumented(t *testing.T) {
	for _, c := range All() {
		require.NotNil(t, docs()[c.Name], c.Name)
		require.NotEmpty(t, docs()[c.Name].Summary, c.Name)
	}
	require.Len(t, docs(), Count())
}

func TestAppendReplyAppends(t *testing.T) {
	require.Equal(t, "before*1\r\n$1\r\nk\r\n", string(AppendReply([]byte("before"), line("COMMAND", "GETKEYS", "GET", "k"), 2)))
	require.True(t, strings.HasPrefix(string(AppendReply(nil, line("COMMAND", "INFO", "x"), 3)), "*1\r\n_\r\n"))
}
