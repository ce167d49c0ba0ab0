package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/sluiceproxy/sluice/pkg/api"
)

// AuditOff and AuditStdout are the values of Options.Audit that are no file.
const (
	AuditOff    = "off"
	AuditStdout = "stdout"
)

// auditLine is one request that changes something, or would have. Nothing of its body is in it.
type auditLine struct {
	Time    time.Time `json:"time"`
	Token   string    `json:"token,omitempty"` // its name
	Role    api.Role  `json:"role,omitempty"`
	Address string    `json:"address"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Via     string    `json:"via,omitempty"` // resp: by a console
	Status  int       `json:"status"`
	Entity  string    `json:"entity,omitempty"`
	Version int       `json:"version,omitempty"` // after the change
	Reason  string    `json:"reason,omitempty"`
	DryRun  bool      `json:"dry_run,omitempty"`
	// Unlogged is how many requests without a valid token before this one had no line.
	Unlogged uint64 `json:"unlogged,omitempty"`
}

// auditLog writes lines. A nil one writes none.
type auditLog struct {
	log  *zap.Logger
	path string // empty for standard output
	mu   sync.Mutex
	to   io.Writer
	file *os.File // nil for standard output
	// Requests without a token are anybody's: they must not fill the disk.
	strangers *rate.Limiter
	unlogged  uint64
}

func openAudit(where string, log *zap.Logger) (*auditLog, error) {
	a := &auditLog{log: log, to: os.Stdout, strangers: rate.NewLimiter(rate.Every(time.Second), 100)}
	switch where {
	case "", AuditOff:
		return nil, nil
	case AuditStdout:
		return a, nil
	}
	a.path = where
	if err := a.reopen(); err != nil {
		return nil, err
	}
	return a, nil
}

// reopen opens the file, again if it is open: what was opened first may have got another name. On an error the one that is
// open stays.
func (a *auditLog) reopen() error {
	if a == nil || a.path == "" {
		return nil
	}
	file, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the audit log: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closeFile()
	a.file, a.to = file, file
	return nil
}

func (a *auditLog) close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closeFile()
}

func (a *auditLog) closeFile() {
	if a.file != nil {
		_ = a.file.Close()
	}
}

// write adds a line in one call, so that it is whole in the file.
func (a *auditLog) write(line auditLine) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if line.Token == "" && !a.strangers.Allow() {
		a.unlogged++
		return
	}
	line.Unlogged, a.unlogged = a.unlogged, 0
	b, err := json.Marshal(line)
	if err == nil {
		_, err = a.to.Write(append(b, '\n'))
	}
	if err != nil {
		a.log.Error("cannot write to the audit log", zap.Error(err))
	}
}

// note writes the audit line of a request that is answered.
func (s *service) note(req *request, status int) {
	switch req.http.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return
	}
	if req.line.Path == prefix+"/explain" { // asks only
		return
	}
	req.line.Status = status
	s.audit.write(req.line)
}
