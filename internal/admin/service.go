package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	// prefix is the root of the API's paths.
	prefix = "/api/v1"
	// maxBody bounds the body of a request.
	maxBody = 1 << 20
	// retryAfter is what a client is told to wait when something is missing that may come back, in seconds.
	retryAfter = 1

	typeJSON    = "application/json"
	typePatch   = "application/merge-patch+json"
	typeProblem = "application/problem+json"
)

// service is the admin API. A nil one is none.
type service struct {
	control *control.Control
	runtime Runtime
	log     *zap.Logger
	routes  *http.ServeMux
	// operations are the routes by their identifiers.
	operations map[string]operation
	failed     *failures
	audit      *auditLog
	json       []byte // the OpenAPI document
	yaml       []byte
	streams    atomic.Int64
	// ended is closed when the port closes: streams of events end.
	ended  context.Context //nolint:containedctx // the service's own life
	cancel context.CancelFunc
}

func newService(o *Options) (*service, error) {
	s := &service{control: o.Control, runtime: o.Runtime, log: o.Log, failed: newFailures()}
	var err error
	if s.audit, err = openAudit(o.Audit, o.Log); err != nil {
		return nil, err
	}
	s.ended, s.cancel = context.WithCancel(context.Background())
	s.register()
	return s, nil
}

// stop ends what would never end by itself.
func (s *service) stop() {
	if s != nil {
		s.cancel()
	}
}

func (s *service) close() {
	if s != nil {
		s.cancel()
		s.audit.close()
	}
}

// request is what the steps of one request know of it.
type request struct {
	http   *http.Request
	secret string
	actor  control.Actor
	line   auditLine
}

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// answer notes the status and lets streams flush. It hides the connection's other abilities on purpose: deadlines for
// reading are the service's.
type answer struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// SetWriteDeadline bounds how long a stream waits for its client.
func (a *answer) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(a.ResponseWriter).SetWriteDeadline(t)
}

// ServeHTTP answers everything below prefix.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if s.document(w, r) {
		return
	}
	req := &request{http: r, line: auditLine{Time: time.Now().UTC(), Address: r.RemoteAddr, Method: r.Method, Path: r.URL.Path}}
	a := &answer{ResponseWriter: w}
	defer func() {
		if failure := recover(); failure != nil {
			if err, ok := failure.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(failure)
			}
			s.log.Error("a request to the admin API failed", zap.Any("failure", failure), zap.Stack("stack"))
			if a.status == 0 {
				writeProblem(a, &api.Problem{Status: http.StatusInternalServerError, Detail: "the request could not be answered; see the proxy's log"})
			}
		}
		s.note(req, a.status)
	}()
	if problem := s.admit(a, r, req); problem != nil {
		writeProblem(a, problem)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, req))
	req.http = r
	s.routes.ServeHTTP(a, r)
}

// admit lets a request in whose token, path, method, body and type are right.
func (s *service) admit(w http.ResponseWriter, r *http.Request, req *request) *api.Problem {
	if problem := s.authenticate(w, r, req); problem != nil {
		return problem
	}
	if problem := s.route(w, r); problem != nil {
		return problem
	}
	body, problem := readBody(w, r)
	if problem != nil {
		return problem
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// What follows may take longer than reading may; only the end of the connection ends it.
	_ = http.NewResponseController(w.(*answer).ResponseWriter).SetReadDeadline(time.Time{}) //nolint:forcetypeassert // ServeHTTP's own
	return checkType(r, len(body))
}

// route says what is wrong with the path or the method.
func (s *service) route(w http.ResponseWriter, r *http.Request) *api.Problem {
	escaped := r.URL.EscapedPath()
	if path.Clean(escaped) == escaped { // the mux would redirect others
		if _, pattern := s.routes.Handler(r); pattern != "" {
			return nil
		}
		if allowed := s.allowed(r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return &api.Problem{Status: http.StatusMethodNotAllowed, Detail: "this path takes " + strings.Join(allowed, ", ")}
		}
	}
	return &api.Problem{Status: http.StatusNotFound, Detail: "there is no such path; " + prefix + "/openapi.json lists them"}
}

func (s *service) allowed(r *http.Request) (methods []string) {
	probe := *r
	for _, probe.Method = range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if _, pattern := s.routes.Handler(&probe); pattern != "" {
			methods = append(methods, probe.Method)
		}
	}
	return methods
}

// readBody reads the body whole, within its bound and the server's time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *api.Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	var network net.Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, &api.Problem{Status: http.StatusRequestEntityTooLarge, Detail: "the body is larger than " + strconv.Itoa(maxBody) + " bytes"}
	case errors.As(err, &network) && network.Timeout():
		return nil, &api.Problem{Status: http.StatusRequestTimeout, Detail: "the body did not come in time"}
	}
	return nil, &api.Problem{Status: http.StatusBadRequest, Detail: "the body cannot be read"}
}

func checkType(r *http.Request, length int) *api.Problem {
	given := r.Header.Get("Content-Type")
	if length == 0 || given == "" {
		return nil
	}
	wanted := []string{typeJSON}
	if r.Method == http.MethodPatch {
		wanted = []string{typePatch, typeJSON}
	}
	media, _, err := mime.ParseMediaType(given)
	for _, want := range wanted {
		if err == nil && media == want {
			r.Header.Set("Content-Type", wanted[0])
			return nil
		}
	}
	return &api.Problem{Status: http.StatusUnsupportedMediaType, Detail: "the body must be " + wanted[0]}
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	p.Title = http.StatusText(p.Status)
	w.Header().Set("Content-Type", typeProblem)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}
