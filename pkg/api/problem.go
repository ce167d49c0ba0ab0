package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Error implements error: what was wrong, and every field that is.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if text == "" {
		text = http.StatusText(p.Status)
	}
	var b strings.Builder
	b.WriteString(text)
	for _, f := range p.Errors {
		b.WriteString("\n  " + f.String())
	}
	return b.String()
}

// String is a field, what is wrong with it, and its value.
func (f ProblemField) String() string {
	text := f.Message
	if field := strings.TrimPrefix(f.Location, "body."); field != "" && field != "body" {
		text = field + ": " + text
	}
	if f.Value == nil || strings.HasPrefix(f.Location, "path.") {
		return text // of a path it is the name of what was asked for, or what stands in the way
	}
	if given, isText := f.Value.(string); isText && strings.HasPrefix(given, `"`) {
		return text + " (it is " + given + ")" // quoted already
	}
	if value, err := json.Marshal(f.Value); err == nil && len(value) <= 200 {
		text += fmt.Sprintf(" (it is %s)", value)
	}
	return text
}

// UnreachableError says that a server gave no answer.
type UnreachableError struct {
	Server string
	Err    error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no answer from %s: %s", e.Server, e.Err)
}

// Unwrap gives the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// problemOf reads an error from an answer. What is not problem+json did not come from this API.
func problemOf(status int, contentType string, body []byte) *Problem {
	p := new(Problem)
	if strings.Contains(contentType, "json") && json.Unmarshal(body, p) == nil && (p.Title != "" || p.Detail != "") {
		p.Status = status
		return p
	}
	if strings.Contains(string(body), "HTTP request to an HTTPS server") {
		return &Problem{Status: status, Title: http.StatusText(status), Detail: "the server speaks TLS: its URL begins with https://"}
	}
	return &Problem{
		Status: status, Title: http.StatusText(status),
		Detail: fmt.Sprintf("the server answered %d %s, and not as Sluice's admin API does", status, http.StatusText(status)),
	}
}
