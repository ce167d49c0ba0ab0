package admin

import "net/http"

// prefix is the root of the API's paths.
const prefix = "/api/v1"

// The values of Options.Audit that are no file.
const (
	AuditOff    = "off"
	AuditStdout = "stdout"
)

// service is the admin API. A nil one is none.
type service struct{}

func newService(*Options) (*service, error) { return &service{}, nil }

func (s *service) stop() {}

func (s *service) close() {}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
