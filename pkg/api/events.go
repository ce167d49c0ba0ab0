package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/tmaxmax/go-sse"
)

// Changed tells of a change of an entity, made on this proxy or another.
type Changed struct {
	Kind   Kind   `json:"kind" enum:"Cluster,Tenant,User,Token" doc:"What was changed."`
	Name   string `json:"name" doc:"Name of the entity; of a user, tenant/name."`
	Change Change `json:"change"`
}

// Event is one of the server's events; exactly one field is set.
type Event struct {
	Changed *Changed
	Stats   *Stats
}

// maxEvent bounds one event, in bytes.
const maxEvent = 16 << 20

// Events follows changes and statistics until ctx ends. After an error there is nothing more: ask again, and read what
// may have changed meanwhile.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		answer, err := c.stream(ctx)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer answer.Body.Close()
		for message, err := range sse.Read(answer.Body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
			if err != nil {
				yield(Event{}, &UnreachableError{Server: c.Server(), Err: err})
				return
			}
			event, known, err := eventOf(message)
			if known && !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// stream opens the events. The answer's body is the caller's to close.
func (c *Client) stream(ctx context.Context) (*http.Response, error) {
	r, err := c.request(ctx, &call{method: http.MethodGet, path: []string{"events"}})
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	answer, err := c.send(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(answer.Body, maxEvent))
		return nil, problemOf(answer.StatusCode, answer.Header.Get("Content-Type"), body)
	}
	return answer, nil
}

// eventOf reads an event; known is false for those that a newer server may send.
func eventOf(message sse.Event) (event Event, known bool, err error) {
	var into any
	switch message.Type {
	case "change":
		event.Changed = new(Changed)
		into = event.Changed
	case "stats":
		event.Stats = new(Stats)
		into = event.Stats
	default:
		return event, false, nil
	}
	if err := json.Unmarshal([]byte(message.Data), into); err != nil {
		return Event{}, true, fmt.Errorf("cannot understand an event of type %s: %w", message.Type, err)
	}
	return event, true, nil
}
