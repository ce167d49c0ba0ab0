package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/control"
	"github.com/sluiceproxy/sluice/internal/store"
)

// problem is an error as the client sees it. conditional says that the request had an If-Match.
func (s *service) problem(err error, conditional bool) error {
	var invalid *control.InvalidError
	var refused *control.RefusedError
	var version *control.VersionError
	switch {
	case errors.As(err, &invalid):
		p := newProblem(http.StatusUnprocessableEntity, "what was sent is not valid")
		for _, f := range invalid.Fields {
			p.Errors = append(p.Errors, &huma.ErrorDetail{Location: f.Location, Message: f.Message, Value: f.Value})
		}
		return p
	case errors.As(err, &refused):
		p := newProblem(http.StatusConflict, refused.Text)
		if len(refused.By) > 0 {
			p.Detail += ": " + strings.Join(refused.By, ", ")
		}
		for _, by := range refused.By {
			p.Errors = append(p.Errors, &huma.ErrorDetail{Location: "path.name", Message: "is used by " + by, Value: by})
		}
		return p
	case errors.As(err, &version) && conditional:
		return newProblem(http.StatusPreconditionFailed, version.Error())
	case errors.As(err, &version):
		return newProblem(http.StatusConflict, version.Error())
	case errors.Is(err, control.ErrNotFound):
		return newProblem(http.StatusNotFound, err.Error())
	case errors.Is(err, control.ErrForbidden):
		return newProblem(http.StatusForbidden, err.Error())
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable("the store cannot be reached now")
	}
	s.log.Error("a request to the admin API failed", zap.Error(err))
	return newProblem(http.StatusInternalServerError, "the request could not be answered; see the proxy's log")
}

func newProblem(status int, detail string) *huma.ErrorModel {
	return &huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail}
}

func notFound(detail string) error { return newProblem(http.StatusNotFound, detail) }

// unavailable is a problem that may go away by itself.
func unavailable(detail string) error {
	return huma.ErrorWithHeaders(newProblem(http.StatusServiceUnavailable, detail), http.Header{"Retry-After": {strconv.Itoa(retryAfter)}})
}

func invalidField(location, message string, value any) error {
	p := newProblem(http.StatusUnprocessableEntity, "what was sent is not valid")
	p.Errors = []*huma.ErrorDetail{{Location: location, Message: message, Value: value}}
	return p
}

// scrub takes values out of problems that are or may hold secrets: a body that does not parse, an object, a password.
func scrub(_ huma.Context, _ string, body any) (any, error) {
	p, ok := body.(*huma.ErrorModel)
	if !ok {
		return body, nil
	}
	for _, e := range p.Errors {
		if !shows(e) {
			e.Value = nil
		}
	}
	return p, nil
}

func shows(e *huma.ErrorDetail) bool {
	const longest = 200
	last := e.Location[strings.LastIndexByte(e.Location, '.')+1:]
	switch last {
	case "body", "password", "sha256", "argon2id", "secret", "":
		return false
	}
	switch v := e.Value.(type) {
	case string:
		return len(v) <= longest
	case bool, float64, int, int64, uint64, nil:
		return true
	}
	return false
}
