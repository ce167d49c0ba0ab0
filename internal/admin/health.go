package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sluiceproxy/sluice/internal/control"
)

// health is what /healthz tells. The process works whenever it answers, so the status of the answer is always 200: a proxy
// goes on serving with the last state of a store that is away, and to start it again would lose that state.
type health struct {
	Status string       `json:"status"` // ok or degraded
	Store  *storeHealth `json:"store,omitempty"`
}

// storeHealth is how the store is. No address and no secret is in it.
type storeHealth struct {
	Kind   string    `json:"kind"`
	Status string    `json:"status"` // ok or unavailable
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

const (
	healthOK          = "ok"
	healthDegraded    = "degraded"
	healthUnavailable = "unavailable"
)

// healthOf asks the store alone; without one there is nothing to ask.
func healthOf(c *control.Control) health {
	if c == nil {
		return health{Status: healthOK}
	}
	status := c.Status()
	h := health{Status: healthOK, Store: &storeHealth{Kind: status.Kind, Status: healthOK, Since: status.Since.UTC()}}
	if !status.Available {
		h.Status, h.Store.Status, h.Store.Reason = healthDegraded, healthUnavailable, status.Reason
	}
	return h
}

func healthz(w http.ResponseWriter, h health) {
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(h)
}
