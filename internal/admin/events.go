package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	"github.com/sluiceproxy/sluice/pkg/api"
)

const (
	// streamsMax bounds the streams of events.
	streamsMax = 64
	// statsEvery is the time between two statistics.
	statsEvery = time.Second
)

func (s *service) registerEvents(a huma.API) {
	o := reading("/events", "stream-events", "Changes as they happen, and statistics every second, as server-sent events")
	o.limit = func(ctx huma.Context, next func(huma.Context)) {
		defer s.streams.Add(-1)
		if s.streams.Add(1) > streamsMax {
			ctx.SetHeader("Retry-After", "1")
			_ = huma.WriteErr(a, ctx, http.StatusServiceUnavailable, "too many streams of events are open")
			return
		}
		next(ctx)
	}
	sse.Register(a, s.operation(a, &o), map[string]any{"change": api.Changed{}, "stats": api.Stats{}},
		func(ctx context.Context, _ *struct{}, send sse.Sender) { s.stream(ctx, requestOf(ctx), send) })
}

// stream sends events until the client goes, its token ends or the port closes.
func (s *service) stream(ctx context.Context, r *request, send sse.Sender) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := s.control.Events(ctx)
	every := time.NewTicker(statsEvery)
	defer every.Stop()
	err := send.Data(s.statsFor(ctx, &r.actor))
	for err == nil {
		select {
		case <-s.ended.Done():
			return
		case e, ok := <-changes:
			if !ok {
				return
			}
			if s.seesChange(ctx, &r.actor)(e.Kind, e.Name) {
				e.Change = hideAddresses(&r.actor, e.Kind, e.Change)
				err = send.Data(e)
			}
		case <-every.C:
			if _, ok := s.control.Authenticate(r.secret); !ok {
				return
			}
			err = send.Data(s.statsFor(ctx, &r.actor))
		}
	}
}
