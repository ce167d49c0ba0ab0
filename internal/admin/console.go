package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/sluiceproxy/sluice/internal/admin/console"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// consoleService answers the consoles with the operations of the API: the same data, the same roles and bounds of tokens,
// the same limit of failures and the same audit log.
type consoleService struct{ *service }

// viaRESP is what the audit log says of requests that came by a console.
const viaRESP = "resp"

// Login implements console.Service.
func (s consoleService) Login(address, secret string) error {
	_, wait, found := s.identify(address, secret)
	if found {
		return nil
	}
	line := auditLine{Time: time.Now().UTC(), Address: address, Method: "AUTH", Via: viaRESP, Status: http.StatusUnauthorized}
	if wait > 0 {
		line.Status = http.StatusTooManyRequests
		s.audit.write(line)
		return console.Error(fmt.Sprintf("ERR too many attempts without a valid token came from this address; try again in %d s", 1+int(wait/time.Second)))
	}
	s.audit.write(line)
	return console.Error("WRONGPASS this is not a valid token of the admin API")
}

// Proxy implements console.Service.
func (s consoleService) Proxy(ctx context.Context, address, secret string, args []string) (answer any, err error) {
	sub := subcommandNamed(args[0])
	a := &asked{
		service: s.service, ctx: ctx, sub: sub, args: args[1:],
		request: &request{http: &http.Request{}, line: auditLine{Time: time.Now().UTC(), Address: address, Via: viaRESP}},
	}
	defer func() {
		if failure := recover(); failure != nil {
			s.log.Error("a PROXY command failed", zap.Any("failure", failure), zap.Stack("stack"))
			answer, err = nil, console.Error("ERR the command could not be answered; see the proxy's log")
		}
	}()
	token, found := s.known(secret)
	if found {
		a.request.is(&token, secret)
	}
	switch {
	case sub == nil && !found:
		return nil, console.NoAuth
	case sub == nil:
		return nil, console.Error(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try PROXY HELP.", args[0]))
	}
	return a.answer(found)
}

// known finds whose a secret is that was given before. It is asked again for each command, so that a token that was taken
// away or has expired ends at once.
func (s consoleService) known(secret string) (token api.Token, found bool) {
	if secret == "" {
		return token, false
	}
	return s.control.Authenticate(secret)
}

// asked is one PROXY command.
type asked struct {
	*service
	ctx     context.Context //nolint:containedctx // of the command, which this is
	sub     *subcommand
	args    []string // after the subcommand
	request *request
}

// answer does what is asked, and notes it in the audit log if it is a write.
func (a *asked) answer(loggedIn bool) (answer any, err error) {
	status := http.StatusInternalServerError // if it fails
	if a.sub.operation != "" {
		a.begin()
		defer func() { a.note(a.request, status) }()
	}
	switch {
	case !loggedIn:
		status, err = http.StatusUnauthorized, console.NoAuth
	case len(a.args) < a.sub.least || len(a.args) > a.sub.most:
		status = http.StatusUnprocessableEntity
		err = console.Error("ERR wrong number of arguments for 'proxy|" + strings.ToLower(a.sub.name) + "' command. Try PROXY HELP.")
	default:
		answer, err = a.sub.run(a)
		status = statusOf(err)
	}
	var text console.Error
	if err != nil && !errors.As(err, &text) {
		err = console.Error(a.text(err))
	}
	return answer, err
}

// begin makes the audit line that of the operation, done over HTTP.
func (a *asked) begin() {
	o := a.operations[a.sub.operation]
	path := o.path
	if name, found := strings.CutPrefix(path, "/tenants/{name}"); found {
		tenant := "-"
		if len(a.args) > 0 {
			tenant = url.PathEscape(a.args[0][:min(len(a.args[0]), 64)])
		}
		path = "/tenants/" + tenant + name
	}
	a.request.http.Method, a.request.line.Method, a.request.line.Path = o.method, o.method, prefix+path
}

// call does an operation of the API as the token may, and returns the body of its answer.
func (a *asked) call(id string, in any) (any, error) {
	o := a.operations[id]
	if detail := refusal(a.request, &o.route); detail != "" {
		return nil, newProblem(http.StatusForbidden, detail)
	}
	out, err := o.handle(a.ctx, a.request, in)
	if err != nil || out == nil {
		return nil, err
	}
	return reflect.ValueOf(out).Elem().FieldByName("Body").Interface(), nil
}

// may says no before arguments are looked at, to who may not do the subcommand's operation at all.
func (a *asked) may() error {
	o := a.operations[a.sub.operation]
	if detail := refusal(a.request, &o.route); detail != "" {
		return newProblem(http.StatusForbidden, detail)
	}
	return nil
}

// usage is an error of what was written.
type usage string

// Error implements error.
func (u usage) Error() string { return string(u) }

// statusOf is what HTTP would have answered.
func statusOf(err error) int {
	var problem *huma.ErrorModel
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &problem):
		return problem.Status
	case errors.As(err, new(usage)):
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// text is a problem as a reply, with what to do.
func (a *asked) text(err error) string {
	var problem *huma.ErrorModel
	if errors.As(err, new(usage)) {
		return "ERR " + err.Error()
	}
	if !errors.As(err, &problem) {
		a.log.Error("a PROXY command failed", zap.Error(err))
		return "ERR the command could not be answered; see the proxy's log"
	}
	switch problem.Status {
	case http.StatusForbidden:
		return "NOPERM " + problem.Detail
	case http.StatusNotFound:
		return "ERR " + problem.Detail + a.sub.whenMissing
	}
	text := "ERR " + problem.Detail
	for _, e := range problem.Errors {
		where := e.Location[strings.LastIndexByte(e.Location, '.')+1:]
		text += "; " + strings.ToUpper(where) + " " + e.Message
	}
	return text
}
