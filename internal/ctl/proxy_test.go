package ctl

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/sluiceproxy/sluice/pkg/api"
)

func TestTheRunningProxy(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	for _, what := range []string{"status", "nodes", "topology c1", "explain acme MGET a b", "sessions list", "config"} {
		golden(t, strings.ReplaceAll(what, " ", "-")+".txt", f.must(ExitOK, what))
	}
	require.Contains(t, f.must(ExitOK, "-o json explain acme GET --watch"), `"--watch"`, "what follows the tenant is the command's")
	require.Contains(t, f.fails(ExitNotFound, "topology nowhere"), "there is no cluster nowhere")
	require.Contains(t, f.fails(ExitNotFound, "explain nobody GET a"), "there is no tenant nobody")
	require.Contains(t, f.must(ExitOK, "sessions list -o wide"), `evil\x1b[2J`, "clients' names cannot move the cursor")
	require.Equal(t, "12\n", f.must(ExitOK, "sessions list --command blpop -o name"))
}

func TestActions(t *testing.T) {
	f := startFleet(t)
	f.furnish()
	f.must(ExitOK, "pause acme --for 30s")
	f.must(ExitOK, "pause acme --mode refuse")
	f.must(ExitOK, "resume acme")
	f.must(ExitNotFound, "resume nobody")
	f.must(ExitOK, "topology c1 --refresh")
	require.Contains(t, f.fails(ExitError, "drain"), "the same with --yes")
	f.must(ExitOK, "drain --yes")
	f.must(ExitOK, "undrain")
	require.Equal(t, "1 session disconnected\n", f.must(ExitOK, "sessions kill --tenant acme --yes"))
	require.Equal(t, "session 7 disconnected\n", f.must(ExitOK, "sessions kill 7"))
	f.must(ExitNotFound, "sessions kill 8")
	require.Contains(t, f.fails(ExitError, "sessions kill --address 10."), `"Disconnect 2 sessions?"`)
	require.Equal(t, []string{"hold", "refuse", "resume", "resume", "refresh", "drain", "undrain", "kill", "kill", "kill"}, f.proxy.done())
	f.must(ExitOK, "reload")
	f.proxy.fails = true
	require.Contains(t, f.fails(ExitConflict, "reload"), "line 3: not a key")
}

func TestEventsAreFollowed(t *testing.T) {
	f := startFleet(t)
	ended := make(chan int, 1)
	follower := &fleet{terminal: newTerminal(t)}
	follower.env = f.env
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { ended <- follower.runIn(ctx, "events", "--count", "1") }() // ends with what is received below
	for i := 0; ; i++ {
		f.must(ExitOK, "clusters create e"+strings.Repeat("x", i)+" --address 127.0.0.1:1")
		select {
		case code := <-ended:
			require.Equal(t, ExitOK, code)
			require.Contains(t, follower.out.String(), "create cluster e")
			require.Contains(t, follower.out.String(), "by admin, version 1: addresses=")
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestTopFrames(t *testing.T) {
	f := startFleet(t)
	f.must(ExitOK, "top --frames 1 --interval 100ms")
	golden(t, "top.txt", strings.ReplaceAll(f.out.String(), f.url, "URL"))
	require.Less(t, strings.Index(f.must(ExitOK, "top --interval 100ms --sort latency"), "slow"), strings.Index(f.out.String(), "busy"))
}

func TestTopFitsTheScreen(t *testing.T) {
	var tenants []api.TenantStats
	for i := range 40 {
		tenants = append(tenants, api.TenantStats{Name: strings.Repeat("t", 30) + string(rune('a'+i%26)) + string(rune('a'+i/26))})
	}
	model := &topModel{view: topView{style: style{true}}, interval: time.Hour}
	model.view.take(look{stats: api.Stats{At: time.Unix(1, 0), Tenants: tenants}})
	model.Update(tea.WindowSizeMsg{Width: 40, Height: 24})
	lines := strings.Split(model.View().Content, "\n")
	require.LessOrEqual(t, len(lines), 24)
	require.Contains(t, model.View().Content, "more")
	require.Contains(t, model.View().Content, "COMMANDS")
	_, next := model.Update(tea.KeyPressMsg{Code: 'q', Text: "q"})
	require.Equal(t, tea.QuitMsg{}, next())
	model.Update(tea.KeyPressMsg{Code: 's', Text: "s"})
	require.Contains(t, model.View().Content, "order: errors")
	model.Update(look{err: &api.UnreachableError{Server: "x", Err: context.DeadlineExceeded}})
	require.Contains(t, model.View().Content, "away: ", "the last numbers stay")
}

func TestLoginAndContexts(t *testing.T) {
	f := startFleet(t)
	delete(f.env, "SLUICE_SERVER")
	delete(f.env, "SLUICE_TOKEN")
	path := filepath.Join(f.env["XDG_CONFIG_HOME"], "sluice", "proxyctl.yaml")
	f.in = strings.NewReader("slt_wrong\n")
	f.must(ExitRefused, "login --server "+f.url)
	require.NoFileExists(t, path, "a wrong token is not kept")

	f.must(ExitOK, "login --name one --server "+f.url+" --token-file "+f.file("token", f.tokens["admin"]+"\n"))
	require.Equal(t, "logged in to "+f.url+" as admin (admin); the context is one\n", f.out.String())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	f.must(ExitOK, "clusters list")
	f.in = strings.NewReader(f.tokens["viewer"])
	f.must(ExitOK, "login --name two --server "+f.url)
	f.must(ExitRefused, "clusters delete c1 --yes")
	f.must(ExitOK, "contexts use one")
	f.must(ExitNotFound, "clusters delete c1 --yes")
	f.must(ExitRefused, "--context two clusters delete c1 --yes")
	out := f.must(ExitOK, "contexts list -o wide")
	require.NotContains(t, out, "slt_")
	require.Regexp(t, `\*\s+one\s+`+f.url+`\s+yes`, out)

	// The token of a context goes to its own server only.
	f.must(ExitRefused, "clusters list --server "+strings.Replace(f.url, "127.0.0.1", "localhost", 1))

	f.must(ExitOK, "contexts delete one")
	f.must(ExitNotFound, "contexts use one")
	require.NoError(t, os.Chmod(path, 0o644))
	f.must(ExitOK, "contexts list")
	require.Contains(t, f.err.String(), "others can read the tokens")
}
