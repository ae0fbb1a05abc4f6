package ingest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// script is a feed that sends what the test puts into its channel.
type script struct {
	name string
	in   chan mesh.Batch
}

func (s script) Name() string { return s.name }

func (s script) Run(ctx context.Context, out chan<- mesh.Batch) error {
	for {
		select {
		case b := <-s.in:
			out <- b
		case <-ctx.Done():
			return nil
		}
	}
}

func (s script) service(host string) mesh.Batch {
	return mesh.Batch{{Source: s.name, Service: mesh.Service{ServiceKey: mesh.ServiceKey{Namespace: "ns", Host: mesh.Hostname(host)}}.Sealed()}}
}

func (s script) synced() mesh.Batch { return mesh.Batch{{Op: mesh.Synced, Source: s.name}} }

type published struct {
	s *snapshot.Snapshot
	d snapshot.Delta
}

func TestNothingIsPublishedBeforeAllAreInSync(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	a, b := script{"a", make(chan mesh.Batch)}, script{"b", make(chan mesh.Batch)}
	out := make(chan published, 10)
	waiting := make(chan []string, 10)
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{
			Feeds: []Feed{a, b}, Builder: snapshot.NewBuilder(snapshot.Options{}),
			Publish: func(s *snapshot.Snapshot, d snapshot.Delta) { out <- published{s, d} },
			Waiting: func(names []string) { waiting <- names },
			Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
	}()
	if got := <-waiting; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("waiting for %v at the start", got)
	}
	a.in <- a.service("one")
	a.in <- a.synced()
	if got := <-waiting; !slices.Equal(got, []string{"b"}) {
		t.Errorf("waiting for %v once a is in sync", got)
	}
	select {
	case p := <-out:
		t.Fatalf("published %d services before b was in sync", len(p.s.Services()))
	default:
	}
	b.in <- slices.Concat(b.service("two"), b.synced())
	first := <-out
	if len(first.s.Services()) != 2 || !first.d.All {
		t.Errorf("first snapshot: %d services, delta %+v", len(first.s.Services()), first.d)
	}
	b.in <- b.service("two") // known already
	b.in <- b.service("three")
	second := <-out
	if len(second.s.Services()) != 3 || second.d.All || len(second.d.Services) != 1 {
		t.Errorf("second snapshot: %d services, delta %+v", len(second.s.Services()), second.d)
	}
	b.in <- mesh.Batch{{Source: "b", Problems: &mesh.Problems{Scope: "file", List: []config.Problem{{Reason: "bad"}}}}}
	if third := <-out; len(third.s.Problems()) != 1 || !third.d.Empty() {
		t.Errorf("after a problem: %v, delta %+v", third.s.Problems(), third.d)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestRunAtDeadline: the end of the context is no error, also if it is a deadline.
func TestRunAtDeadline(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	if err := Run(ctx, Options{Builder: snapshot.NewBuilder(snapshot.Options{}), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// canceled is a feed that fails because a context of its own was canceled.
type canceled struct{}

func (canceled) Name() string { return "canceled" }

func (canceled) Run(context.Context, chan<- mesh.Batch) error {
	return fmt.Errorf("list: %w", context.Canceled)
}

// TestFeedFails: the error of a feed is returned with its name, whichever it is, and the other
// feeds are stopped.
func TestFeedFails(t *testing.T) {
	defer goleak.VerifyNone(t)
	err := Run(t.Context(), Options{
		Feeds: []Feed{script{"a", nil}, canceled{}}, Builder: snapshot.NewBuilder(snapshot.Options{}),
		Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || err.Error() != "canceled: list: context canceled" {
		t.Errorf("ended with %v", err)
	}
}

// without is a filter that removes the objects of a namespace.
type without string

func (w without) Convert(batch mesh.Batch) mesh.Batch {
	return slices.DeleteFunc(slices.Clone(batch), func(e mesh.Event) bool { return e.Config != nil && e.Config.Namespace == string(w) })
}

// TestFiltersComeFirst: an object that a filter removes appears nowhere, not even among the objects
// that are stored for display.
func TestFiltersComeFirst(t *testing.T) {
	p := newPipeline(Options{Filters: []registry.Converter{without("hidden")}, Converters: []registry.Converter{without("seen")}})
	object := func(namespace string) mesh.Event {
		return mesh.Event{Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.Ingress, Namespace: namespace, Name: "x"}}}}
	}
	out := p.convert(mesh.Batch{object("hidden"), object("seen")})
	if len(out) != 1 || out[0].Config.Namespace != "seen" {
		t.Errorf("left are %v", out)
	}
}
