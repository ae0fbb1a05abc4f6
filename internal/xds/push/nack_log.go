package push

import (
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// maxNacks bounds how many refusals are remembered. Refusals that have ended are evicted first.
const maxNacks = 1000

// nackLog contains the last refusals of all streams.
type nackLog struct {
	metrics Metrics

	mu       sync.Mutex
	list     []Nack // oldest first
	standing int
}

// add appends a refusal, which must be standing. If the log has maxNacks, it first removes the
// oldest refusal that has ended, or the oldest of all if all are standing.
func (l *nackLog) add(n Nack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == maxNacks {
		i := max(0, slices.IndexFunc(l.list, func(n Nack) bool { return !n.Standing }))
		if l.list[i].Standing {
			l.standing--
		}
		l.list = slices.Delete(l.list, i, i+1)
	}
	l.list = append(l.list, n)
	l.standing++
}

// hasStanding reports whether the stream (connection is its ID) has a refusal that has not ended.
func (l *nackLog) hasStanding(connection string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standing > 0 && slices.ContainsFunc(l.list, func(n Nack) bool {
		return n.Standing && n.Connection == connection
	})
}

// endType ends the stream's standing refusals of a type, because the stream has accepted a later
// response of it.
func (l *nackLog) endType(connection, typeURL string) {
	l.endWhere(func(n *Nack) bool { return n.Connection == connection && n.TypeURL == typeURL })
}

// endOutdated marks the stream's standing refusals as ended (endWhere) whose resources are all
// absent from the ResourceSnapshot in the refused version, and also refusals without any resource.
// They stay in the log. It is needed because Envoy does not always unsubscribe from an extension
// that it no longer uses.
func (l *nackLog) endOutdated(connection string, w *stream.ResourceSnapshot) {
	l.endWhere(func(n *Nack) bool {
		return n.Connection == connection && !slices.ContainsFunc(n.blamedResources(), func(r Refused) bool {
			return slices.ContainsFunc(w.Groups(n.TypeURL), func(s *stream.ResourceGroup) bool {
				now := s.Set().Get(r.Name)
				return now != nil && now.Version == r.Version
			})
		})
	})
}

// endAll ends all standing refusals of a stream (connection is its ID) that was closed.
func (l *nackLog) endAll(connection string) {
	l.endWhere(func(n *Nack) bool { return n.Connection == connection })
}

// endWhere marks each standing refusal that matches as ended; it stays in the log. It reports it to
// the metrics as RejectionResolved unless another refusal of the same proxy and type still stands.
// That is possible because a proxy has two streams during a hot restart.
func (l *nackLog) endWhere(matches func(*Nack) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standing == 0 {
		return
	}
	for i := range l.list {
		n := &l.list[i]
		if !n.Standing || !matches(n) {
			continue
		}
		n.Standing = false
		l.standing--
		if !slices.ContainsFunc(l.list, func(o Nack) bool { return o.Standing && o.sameSubject(n) }) {
			l.metrics.RejectionResolved(*n)
		}
	}
}

// newestFirst returns a copy of all recorded refusals, standing and ended, newest first.
func (l *nackLog) newestFirst() []Nack {
	l.mu.Lock()
	list := slices.Clone(l.list)
	l.mu.Unlock()
	slices.Reverse(list)
	return list
}
