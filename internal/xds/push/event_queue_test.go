package push

import (
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// TestPublishAgainKeepsTheNewest: if a snapshot is published while the one before is published
// again, the queue has the newer one.
func TestPublishAgainKeepsTheNewest(t *testing.T) {
	q := newEventQueue()
	older, newer := &snapshot.Snapshot{}, &snapshot.Snapshot{}
	for range 10_000 {
		q.publish(older, snapshot.Delta{}, time.Time{})
		var wg sync.WaitGroup
		wg.Go(func() { q.publishAgain(snapshot.Delta{All: true}, time.Time{}) })
		wg.Go(func() { q.publish(newer, snapshot.Delta{}, time.Time{}) })
		wg.Wait()
		list := q.drainEvents()
		p, ok := list[len(list)-1].(rollout.Published)
		if !ok || p.Snapshot != newer || !p.Delta.All {
			t.Fatalf("the last event is %+v, want the newer snapshot with all changes", list[len(list)-1])
		}
	}
}

// TestPublishAgainBeforeTheFirst: without a snapshot there is nothing to publish.
func TestPublishAgainBeforeTheFirst(t *testing.T) {
	q := newEventQueue()
	if q.publishAgain(snapshot.Delta{All: true}, time.Time{}); !q.isEmpty() {
		t.Errorf("the queue has %v", q.drainEvents())
	}
}
