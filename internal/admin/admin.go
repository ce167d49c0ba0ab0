// Package admin is the HTTP port of the daemon: health, readiness, metrics and profiles.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Options say what the port serves.
type Options struct {
	Address string
	// PProf serves the runtime's profiles.
	PProf    bool
	Gatherer prometheus.Gatherer
	// Ready lists what is not ready; empty means that every tenant can be served.
	Ready func() []NotReady
	Log   *zap.Logger
}

// NotReady names something that cannot be served yet, and why.
type NotReady struct {
	Cluster string   `json:"cluster,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
	Reason  string   `json:"reason"`
}

// Server is the running port.
type Server struct {
	listener net.Listener
	http     *http.Server
	done     chan struct{}
	err      error
}

// Listen opens the port; Serve answers on it.
func Listen(ctx context.Context, o Options) (*Server, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on admin address %s: %w", o.Address, err)
	}
	return &Server{
		listener: ln,
		done:     make(chan struct{}),
		http: &http.Server{
			Handler:           handler(&o),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          zap.NewStdLog(o.Log),
		},
	}, nil
}

// Address is where the port listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Serve answers requests on a goroutine of its own until Close.
func (s *Server) Serve() {
	go func() {
		defer close(s.done)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
}

// Close stops the port and waits for its goroutine.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return errors.Join(err, s.err)
}

func handler(o *Options) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(o.Log), MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readyz(w, o.Ready()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, "sluiced admin port: /healthz /readyz /metrics"+map[bool]string{true: " /debug/pprof/"}[o.PProf]+"\n")
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
