package control

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/sluiceproxy/sluice/internal/store"
	"github.com/sluiceproxy/sluice/pkg/api"
)

// versionsMax is how many versions of an entity are kept.
const versionsMax = 20

// record is one entity in the store: its versions, the last of which is in force. So an entity and its history change
// together. A deleted entity keeps its record, so that it can come back.
type record struct {
	Versions []version `json:"versions"` // oldest first, never empty

	parsing sync.Once // of the last version, see entities.of
	entity  any
	err     error
}

// version is one state of an entity and how it came about.
type version struct {
	api.Change
	// Entity is as it is kept: secrets hashed or sealed. Null: deleted.
	Entity  json.RawMessage `json:"entity"`
	Created time.Time       `json:"created"` // of the first version since the entity was last absent
}

func parseRecord(b []byte) (*record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("cannot read the record: %w", err)
	}
	if len(r.Versions) == 0 {
		return nil, fmt.Errorf("cannot read the record: it has no versions")
	}
	return &r, nil
}

func (r *record) last() *version { return &r.Versions[len(r.Versions)-1] }

func (r *record) deleted() bool {
	return r == nil || r.last().Entity == nil || string(r.last().Entity) == "null"
}

// version is that of the entity: 0 when there is none.
func (r *record) version() int {
	if r.deleted() {
		return 0
	}
	return r.last().Version
}

// with returns the record with one more version, the oldest ones dropped that no longer fit.
func (r *record) with(v version) ([]byte, *record, error) {
	next := &record{}
	if r != nil {
		next.Versions = append(next.Versions, r.Versions...)
	}
	next.Versions = append(next.Versions, v)
	for {
		if over := len(next.Versions) - versionsMax; over > 0 {
			next.Versions = next.Versions[over:]
		}
		b, err := json.Marshal(next)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot write the record: %w", err)
		}
		if len(b) <= store.MaxValue || len(next.Versions) == 1 {
			return b, next, nil
		}
		next.Versions = next.Versions[1:]
	}
}
