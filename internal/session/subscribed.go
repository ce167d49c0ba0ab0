package session

import "github.com/sluiceproxy/sluice/internal/upstream"

// subscriptionCounts is how many channels, patterns and shard channels the session listens to.
func (s *Session) subscriptionCounts() (sub, psub, ssub int) {
	if s.channels == nil {
		return 0, 0, 0
	}
	names := &s.channels.names
	return len(names[upstream.Channel]), len(names[upstream.Pattern]), len(names[upstream.ShardChannel])
}
