package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultServer is where a daemon's admin port is unless it is told otherwise.
const DefaultServer = "http://127.0.0.1:8380"

const (
	defaultTimeout = 30 * time.Second
	defaultRetries = 2
	firstPause     = 100 * time.Millisecond
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 64 << 20
)

// Options say how a client reaches a proxy. The zero value reaches one on this machine without a token.
type Options struct {
	// Server is the URL of the admin port. Default DefaultServer.
	Server string
	// Token is the bearer token; empty sends none.
	Token string
	// TLS is used for https; nil takes the system's certificate authorities.
	TLS *tls.Config
	// Timeout bounds one request with its answer. Default 30 s. Streams of events are bounded by their context alone.
	Timeout time.Duration
	// Retries is how often a request that only reads is sent again when there was no answer, or one of a server that is not
	// able to answer now. Default 2; below 0 none. Writes are sent once.
	Retries int
	// UserAgent is told to the server. Default "sluice-api".
	UserAgent string
}

// Client asks one proxy. Its methods may be used from any goroutine. An error of the server is a *Problem, a missing
// answer an *UnreachableError.
type Client struct {
	base    *url.URL
	options Options
	http    *http.Client
}

// New makes a client; nothing is sent yet.
func New(o Options) (*Client, error) {
	if o.Server == "" {
		o.Server = DefaultServer
	}
	base, err := url.Parse(strings.TrimSuffix(o.Server, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of an admin port, such as %s", o.Server, DefaultServer)
	}
	if base.User != nil {
		return nil, errors.New("the URL of the admin port must not contain a user or password: use a token")
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Retries == 0 {
		o.Retries = defaultRetries
	}
	if o.UserAgent == "" {
		o.UserAgent = "sluice-api"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own
	transport.TLSClientConfig = o.TLS
	return &Client{base: base, options: o, http: &http.Client{
		Transport: transport,
		// A token is for the server that it was given for and no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Server is the URL that the client asks.
func (c *Client) Server() string { return c.base.String() }

// Close drops connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request: the elements of its path below /api/v1, and what goes with it.
type call struct {
	method  string
	path    []string
	query   url.Values
	body    any
	patch   bool // the body is a merge patch
	version int  // for If-Match; 0: any
	reason  string
	timeout time.Duration // 0: the client's
}

func (k *call) reads() bool { return k.method == http.MethodGet }

func (c *Client) url(k *call) string {
	u := *c.base
	var raw strings.Builder
	raw.WriteString(u.Path + "/api/v1")
	for _, element := range k.path {
		raw.WriteString("/" + url.PathEscape(element))
	}
	u.RawPath = raw.String()
	u.Path, _ = url.PathUnescape(u.RawPath) // what was escaped a moment ago
	u.RawQuery = k.query.Encode()
	return u.String()
}

func (c *Client) request(ctx context.Context, k *call) (*http.Request, error) {
	var body io.Reader
	if k.body != nil {
		b, err := json.Marshal(k.body)
		if err != nil {
			return nil, fmt.Errorf("cannot write the request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, c.url(k), body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", c.options.UserAgent)
	if c.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	switch {
	case k.patch:
		r.Header.Set("Content-Type", "application/merge-patch+json")
	case k.body != nil:
		r.Header.Set("Content-Type", "application/json")
	}
	if k.version > 0 {
		r.Header.Set("If-Match", strconv.Quote(strconv.Itoa(k.version)))
	}
	return r, nil
}

// do sends a request and reads its answer into into, which may be nil.
func (c *Client) do(ctx context.Context, k call, into any) error {
	if k.reason != "" {
		if k.query == nil {
			k.query = url.Values{}
		}
		k.query.Set("reason", k.reason) // a header could not carry every character
	}
	pause := firstPause
	for attempt := 0; ; attempt++ {
		err := c.once(ctx, &k, into)
		if err == nil || !k.reads() || attempt >= c.options.Retries || !mayPass(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause *= 4
		}
	}
}

// mayPass reports whether an error may be gone a moment later.
func mayPass(err error) bool {
	var unreachable *UnreachableError
	if errors.As(err, &unreachable) {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !isCertificate(err)
	}
	var p *Problem
	if errors.As(err, &p) {
		return p.Status == http.StatusBadGateway || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout
	}
	return false
}

func isCertificate(err error) bool {
	var wrong *tls.CertificateVerificationError
	return errors.As(err, &wrong)
}

func (c *Client) once(ctx context.Context, k *call, into any) error {
	timeout := k.timeout
	if timeout == 0 {
		timeout = c.options.Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := c.request(ctx, k)
	if err != nil {
		return err
	}
	answer, err := c.send(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return &UnreachableError{Server: c.Server(), Err: fmt.Errorf("the answer broke off: %w", err)}
	case len(body) > maxAnswer:
		return fmt.Errorf("the answer of %s is longer than %d bytes", c.Server(), maxAnswer)
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return problemOf(answer.StatusCode, answer.Header.Get("Content-Type"), body)
	case into == nil || len(body) == 0:
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot understand the answer of %s; is it Sluice's admin port? %w", c.Server(), err)
	}
	return nil
}

func (c *Client) send(r *http.Request) (*http.Response, error) {
	answer, err := c.http.Do(r)
	if err == nil {
		return answer, nil
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // the URL is told anyway
	}
	return nil, &UnreachableError{Server: c.Server(), Err: err}
}
