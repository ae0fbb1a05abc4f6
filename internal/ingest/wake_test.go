package ingest

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// expiring reports a Problem from a time on. Before Synced it has no next change.
type expiring struct {
	now    func() time.Time
	at     time.Time
	synced bool
}

func (e *expiring) NextChange() time.Time {
	if !e.synced || e.now().After(e.at) {
		return time.Time{}
	}
	return e.at
}

func (e *expiring) Convert(batch mesh.Batch) mesh.Batch {
	for _, x := range batch {
		e.synced = e.synced || x.Op == mesh.Synced
	}
	if e.now().After(e.at) {
		problems := &mesh.Problems{Scope: "expiring", List: []config.Problem{{Reason: "expired", Severity: config.Warning}}}
		batch = append(batch, mesh.Event{Source: "expiring", Problems: problems})
	}
	return batch
}

// skippingClock is a Clock whose time advances by each wait at once. Only the goroutine of the
// pipeline uses it before the test ends.
type skippingClock struct {
	now   time.Time
	waits []time.Duration
}

func (c *skippingClock) Now() time.Time { return c.now }

func (c *skippingClock) After(d time.Duration) <-chan time.Time {
	c.waits = append(c.waits, d)
	c.now = c.now.Add(d)
	expired := make(chan time.Time, 1)
	expired <- c.now
	return expired
}

// TestTimedConverter lets time pass without an event: the pipeline waits for an hour at most, and
// converts again when the result of a converter changes.
func TestTimedConverter(t *testing.T) {
	start := time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := &skippingClock{now: start}
	feed := script{"feed", make(chan mesh.Batch)}
	published := make(chan *snapshot.Snapshot, 2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Options{
			Feeds: []Feed{feed}, Builder: snapshot.NewBuilder(snapshot.Options{}), Clock: clock,
			Converters: []registry.Converter{&expiring{now: clock.Now, at: start.Add(90 * time.Minute)}},
			Publish:    func(s *snapshot.Snapshot, _ snapshot.Delta) { published <- s },
			Log:        slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
	}()
	feed.in <- feed.synced()
	for _, want := range []int{0, 1} {
		select {
		case s := <-published:
			if got := len(s.Problems()); got != want {
				t.Errorf("%d Problems, want %d", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("no snapshot is published")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	waits := clock.waits
	if len(waits) != 2 || waits[0] != time.Hour || waits[1] != 30*time.Minute+time.Millisecond {
		t.Errorf("waited %v, want an hour and the rest", waits)
	}
}
