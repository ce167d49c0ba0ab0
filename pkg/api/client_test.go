package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// serve is a client of a server that answers so.
func serve(t *testing.T, handler http.HandlerFunc, o api.Options) *api.Client {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o.Server = server.URL
	client, err := api.New(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	if status >= 400 {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func TestRequestsAreWhatTheAPISays(t *testing.T) {
	var got, header, body string
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery, string(b)
		header = fmt.Sprint(r.Header["Authorization"], r.Header["If-Match"], r.Header["Content-Type"]) // lists are apart
		answer(w, http.StatusOK, map[string]any{})
	}, api.Options{Token: "slt_x"})
	ctx := t.Context()
	for want, do := range map[string]func() error{
		"GET /api/v1/clusters/c1? [Bearer slt_x] [] [] ": func() error { _, err := client.Clusters().Get(ctx, "c1"); return err },
		`PUT /api/v1/tenants/acme?reason=a+b [Bearer slt_x] ["3"] [application/json] {"name":"acme","cluster":"c1"}`: func() error {
			_, err := client.Tenants().Replace(ctx, "acme", api.Tenant{Name: "acme", Cluster: "c1"}, api.WriteOptions{Version: 3, Reason: "a b"})
			return err
		},
		`PATCH /api/v1/tenants/a%2Fb?dryRun=true [Bearer slt_x] [] [application/merge-patch+json] {"tls":null}`: func() error {
			_, err := client.Tenants().Plan().Patch(ctx, "a/b", map[string]any{"tls": nil}, api.WriteOptions{})
			return err
		},
		`POST /api/v1/tenants/acme/users? [Bearer slt_x] [] [application/json] {"tenant":"acme","name":"app","password":"p"}`: func() error {
			_, err := client.Users("acme").Create(ctx, api.User{Tenant: "acme", Name: "app", Password: "p"}, api.WriteOptions{})
			return err
		},
		`DELETE /api/v1/tokens/ci? [Bearer slt_x] ["1"] [] `: func() error {
			return client.Tokens().Delete(ctx, "ci", api.WriteOptions{Version: 1})
		},
		`POST /api/v1/clusters/c1/rollback? [Bearer slt_x] [] [application/json] {"version":2}`: func() error {
			_, err := client.Clusters().Rollback(ctx, "c1", 2, api.WriteOptions{})
			return err
		},
		`POST /api/v1/tenants/acme/actions/pause? [Bearer slt_x] [] [application/json] {"mode":"hold","for":"5s"}`: func() error {
			return client.Pause(ctx, "acme", api.PauseOptions{Mode: "hold", For: api.Duration(5 * time.Second)})
		},
		`DELETE /api/v1/sessions?address=10.&tenant=acme [Bearer slt_x] [] [] `: func() error {
			_, err := client.KillSessions(ctx, api.SessionFilter{Tenant: "acme", Address: "10."})
			return err
		},
		`POST /api/v1/topology/c1/actions/refresh? [Bearer slt_x] [] [] `: func() error { return client.RefreshTopology(ctx, "c1") },
		`POST /api/v1/explain? [Bearer slt_x] [] [application/json] {"args":["GET","k"],"tenant":"acme"}`: func() error {
			_, err := client.Explain(ctx, "acme", []string{"GET", "k"})
			return err
		},
	} {
		require.NoError(t, do(), want)
		require.Equal(t, want, got+" "+header+" "+body)
	}
}

func TestProblemNamesFields(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnprocessableEntity, api.Problem{Title: "Unprocessable Entity", Detail: "what was sent is not valid", Errors: []api.ProblemField{
			{Location: "body.addresses[0]", Message: "is not host:port", Value: "nowhere"},
		}})
	}, api.Options{})
	_, err := client.Clusters().Create(t.Context(), api.Cluster{}, api.WriteOptions{})
	var problem *api.Problem
	require.ErrorAs(t, err, &problem)
	require.Equal(t, http.StatusUnprocessableEntity, problem.Status)
	require.EqualError(t, err, "what was sent is not valid\n  addresses[0]: is not host:port (it is \"nowhere\")")
}

func TestOtherServersAreNotUnderstood(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/status" {
			_, _ = w.Write([]byte("<html>"))
			return
		}
		http.NotFound(w, r)
	}, api.Options{})
	_, err := client.Status(t.Context())
	require.ErrorContains(t, err, "is it Sluice's admin port?")
	_, err = client.Stats(t.Context())
	require.ErrorContains(t, err, "the server answered 404 Not Found, and not as Sluice's admin API does")
}

// TestOnlyReadsAreSentAgain: a write whose answer is lost may have been done.
func TestOnlyReadsAreSentAgain(t *testing.T) {
	calls := 0
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			answer(w, http.StatusServiceUnavailable, api.Problem{Title: "Service Unavailable"})
			return
		}
		answer(w, http.StatusOK, api.Status{Version: "1"})
	}, api.Options{})
	status, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", status.Version)
	require.Equal(t, 3, calls)

	calls = 0
	require.Error(t, client.Drain(t.Context()))
	require.Equal(t, 1, calls)
}

func TestTokenDoesNotFollowRedirects(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	client := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, api.Options{Token: "slt_x"})
	_, err := client.Status(t.Context())
	require.ErrorContains(t, err, "302")
	require.False(t, reached)
}

func TestTimeoutEndsARequest(t *testing.T) {
	client := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, api.Options{Timeout: 20 * time.Millisecond})
	_, err := client.Status(t.Context())
	var away *api.UnreachableError
	require.ErrorAs(t, err, &away)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAllPagesAreRead(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page") {
		case "":
			answer(w, http.StatusOK, api.Page[api.Tenant]{Items: []api.Tenant{{Name: "a"}, {Name: "b"}}, Total: 3, Next: "2"})
		case "2":
			answer(w, http.StatusOK, api.Page[api.Tenant]{Items: []api.Tenant{{Name: "c"}}, Total: 3})
		}
	}, api.Options{})
	var names []string
	for tenant, err := range client.Tenants().All(t.Context(), api.ListOptions{}) {
		require.NoError(t, err)
		names = append(names, tenant.Name)
	}
	require.Equal(t, []string{"a", "b", "c"}, names)
}

func TestEventsUntilTheContextEnds(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\nevent: novelty\ndata: {}\n\n")
		fmt.Fprint(w, "event: change\ndata: {\"kind\":\"Tenant\",\"name\":\"acme\",\n"+"data: \"change\":{\"version\":2}}\n\n")
		fmt.Fprint(w, "event: stats\ndata: {\"tenants\":[{\"name\":\"acme\",\"clients\":3}]}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, api.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var events []api.Event
	for event, err := range client.Events(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		if events = append(events, event); len(events) == 2 {
			cancel()
		}
	}
	require.Len(t, events, 2)
	require.Equal(t, "acme", events[0].Changed.Name)
	require.Equal(t, 2, events[0].Changed.Change.Version)
	require.Equal(t, 3, events[1].Stats.Tenants[0].Clients)
}

func TestEventsRefused(t *testing.T) {
	client := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusForbidden, api.Problem{Title: "Forbidden", Detail: "no"})
	}, api.Options{})
	for _, err := range client.Events(t.Context()) {
		var problem *api.Problem
		require.True(t, errors.As(err, &problem))
		require.Equal(t, http.StatusForbidden, problem.Status)
	}
}

func TestWrongServers(t *testing.T) {
	for _, server := range []string{"127.0.0.1:8380", "ftp://host", "http://", "http://user:secret@host", "://"} {
		_, err := api.New(api.Options{Server: server})
		require.Error(t, err, server)
		require.NotContains(t, err.Error(), "secret")
	}
}
