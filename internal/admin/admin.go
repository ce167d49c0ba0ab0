// Package admin is the HTTP port of the daemon: health, readiness, metrics, profiles and the admin API, which the consoles
// speak over RESP.
package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/admin/console"
	"github.com/sluiceproxy/sluice/internal/control"
)

// Options say what the port serves.
type Options struct {
	// Address is the HTTP port's; empty: there is none.
	Address string
	// Consoles are served with PROXY commands. They need Control.
	Consoles []Console
	// PProf serves the runtime's profiles.
	PProf    bool
	Gatherer prometheus.Gatherer
	// Ready lists what is not ready; empty means that every tenant can be served.
	Ready func() []NotReady
	Log   *zap.Logger
	// Version is that of the proxy, for the consoles.
	Version string

	// TLS makes the port HTTPS; nil: plain HTTP. See also Server.SetTLS.
	TLS *tls.Config
	// Control is the desired state; nil: the port has no API.
	Control *control.Control
	// Runtime is the running proxy; needed with Control.
	Runtime Runtime
	// Audit is where a line of JSON is written for every write through the API: AuditOff, AuditStdout or a file's path.
	Audit string
}

// Console is an open listener for operators who have only redis-cli.
type Console struct {
	Listener net.Listener
	// TLS, when set, is spoken there.
	TLS *tls.Config
}

// NotReady names something that cannot be served yet, and why.
type NotReady struct {
	Cluster string   `json:"cluster,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	Reason  string   `json:"reason"`
}

// Server is the running port, and the consoles.
type Server struct {
	listener net.Listener // nil: there is no HTTP port
	consoles []*console.Server
	http     *http.Server
	tls      atomic.Pointer[tls.Config]
	api      *service // nil: there is no API
	done     chan struct{}
	err      error
}

// Listen opens the port; Serve answers on it and on the consoles, whose listeners it takes over unless there is an error.
func Listen(ctx context.Context, o Options) (*Server, error) {
	s := &Server{done: make(chan struct{})}
	var err error
	if o.Control != nil {
		if s.api, err = newService(&o); err != nil { //nolint:contextcheck // its requests bring their own
			return nil, err
		}
	}
	for _, c := range o.Consoles {
		s.consoles = append(s.consoles, console.New(c.Listener, c.TLS, console.Options{Service: consoleService{s.api}, Version: o.Version, Log: o.Log}))
	}
	if o.Address == "" {
		return s, nil
	}
	if s.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address); err != nil {
		s.api.close()
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("cannot listen on admin address %s: another program does; is sluiced running already? Stop it, or choose another address: --admin (admin.address)", o.Address)
		}
		return nil, fmt.Errorf("cannot listen on admin address %s: %w", o.Address, err)
	}
	if o.TLS != nil {
		s.SetTLS(o.TLS)
		s.listener = tls.NewListener(s.listener, &tls.Config{
			MinVersion:         tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tls.Load(), nil },
		})
	}
	s.http = &http.Server{
		Handler:           s.handler(&o),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          zap.NewStdLog(o.Log),
	}
	return s, nil
}

// SetTLS gives connections that are made from now on these certificates. It is for a port that speaks TLS already.
func (s *Server) SetTLS(c *tls.Config) { s.tls.Store(c) }

// ReopenAudit opens the file of the audit log again, so that it can be rotated.
func (s *Server) ReopenAudit() error {
	if s.api == nil {
		return nil
	}
	return s.api.audit.reopen()
}

// SetConsoleTLS is SetTLS for a console, by its place in Options.
func (s *Server) SetConsoleTLS(i int, c *tls.Config) { s.consoles[i].SetTLS(c) }

// Address is where the port listens; empty: there is none.
func (s *Server) Address() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Consoles are where the consoles listen.
func (s *Server) Consoles() (addresses []net.Addr) {
	for _, c := range s.consoles {
		addresses = append(addresses, c.Addr())
	}
	return addresses
}

// Serve answers requests on goroutines of its own until Close.
func (s *Server) Serve() {
	for _, c := range s.consoles {
		c.Serve()
	}
	if s.listener == nil {
		close(s.done)
		return
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
}

// Close stops the port and waits for its goroutine.
func (s *Server) Close(ctx context.Context) error {
	s.api.stop()
	for _, c := range s.consoles {
		c.Close()
	}
	var err error
	if s.listener != nil {
		if err = s.http.Shutdown(ctx); err != nil {
			err = s.http.Close()
		}
	}
	<-s.done
	s.api.close()
	return errors.Join(err, s.err)
}

// handler answers the API's paths itself: the mux would redirect some of them.
func (s *Server) handler(o *Options) http.Handler {
	probes := probes(o)
	if s.api == nil {
		return probes
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == prefix || strings.HasPrefix(r.URL.Path, prefix+"/") {
			s.api.ServeHTTP(w, r)
			return
		}
		probes.ServeHTTP(w, r)
	})
}

func probes(o *Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(o.Log), MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { healthz(w, healthOf(o.Control)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, o.Ready()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "sluiced admin port: /healthz /readyz /metrics"+
			map[bool]string{true: " /debug/pprof/"}[o.PProf]+map[bool]string{true: " " + prefix + "/openapi.json"}[o.Control != nil]+"\n")
	})
	if o.PProf {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func readyz(w http.ResponseWriter, missing []NotReady) {
	status, answer := http.StatusOK, map[string]any{"status": "ready"}
	if len(missing) > 0 {
		status, answer = http.StatusServiceUnavailable, map[string]any{"status": "not ready", "not_ready": missing}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}
