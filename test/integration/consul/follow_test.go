package consul

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	registry "github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/consul"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience is the timeout of each wait for the registry.
const patience = 90 * time.Second

// interval is the minimum time between two reads of a changed list of services.
const interval = 200 * time.Millisecond

// follower runs a Source and a Converter, and accumulates their events.
type follower struct {
	t       testing.TB
	metrics *obs.ConsulMetrics

	mu    sync.Mutex
	state *conform.State
	wrong []error
	// seen are the descriptions of all states of the endpoints so far, the newest last.
	seen []string
}

func follow(t testing.TB, s *consul.Server, edit func(*registry.Settings)) *follower {
	t.Helper()
	settings := registry.DefaultSettings()
	settings.URL, settings.Interval = s.URL, interval
	if edit != nil {
		edit(&settings)
	}
	f := &follower{t: t, metrics: &obs.NewMetrics().Consul, state: conform.NewState()}
	source, err := registry.New(registry.Options{Settings: settings, Metrics: f.metrics})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, done := make(chan mesh.Batch), make(chan error, 1)
	go func() { done <- source.Run(ctx, out); close(out) }()
	go f.apply(out)
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.wrong) > 0 {
			t.Errorf("events that a registry must not send: %v", f.wrong)
		}
	})
	return f
}

func (f *follower) apply(out <-chan mesh.Batch) {
	converter := registry.NewConverter(registry.ConverterOptions{})
	for batch := range out {
		events := converter.Convert(batch)
		f.mu.Lock()
		if err := f.state.Apply(events); err != nil {
			f.wrong = append(f.wrong, err)
		}
		f.seen = append(f.seen, f.describe())
		f.mu.Unlock()
	}
}

// describe returns the endpoints of the main hosts: "web: 192.0.2.1 192.0.2.2=DRAINING".
func (f *follower) describe() string {
	var lines []string
	for _, s := range f.state.Shards {
		name, found := strings.CutSuffix(string(s.Service.Host), ".service.consul")
		if !found || strings.Contains(name, ".") {
			continue
		}
		var list []string
		for _, e := range s.Endpoints {
			text := e.Address
			if e.Health != mesh.Healthy {
				text += "=" + string(e.Health)
			}
			list = append(list, text)
		}
		slices.Sort(list)
		lines = append(lines, name+": "+strings.Join(list, " "))
	}
	slices.Sort(lines)
	if !f.state.Synced {
		lines = append(lines, "not synced")
	}
	return strings.Join(lines, "; ")
}

// await waits until the endpoints are as described.
func (f *follower) await(want string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, want, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := f.describe(); got != want {
			return fmt.Errorf("%q; problems %v", got, f.state.Problems)
		}
		return nil
	})
}

// states returns the descriptions of all states so far.
func (f *follower) states() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// awaitProblem waits until a Problem contains the text, or with "" until no Problem is left.
func (f *follower) awaitProblem(text string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, "problem "+text, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if text == "" && len(f.state.Problems) == 0 {
			return nil
		}
		for _, list := range f.state.Problems {
			for _, p := range list {
				if text != "" && strings.Contains(p.String(), text) {
					return nil
				}
			}
		}
		return fmt.Errorf("problems %v", f.state.Problems)
	})
}

// awaitHeld waits until this number of instances is held.
func (f *follower) awaitHeld(want float64) {
	f.t.Helper()
	serving.Eventually(f.t, patience, "held instances", func() error {
		if n := testutil.ToFloat64(f.metrics.Held); n != want {
			return fmt.Errorf("%v, want %v", n, want)
		}
		return nil
	})
}

// mark returns a function that fails the test if the endpoints have been different from now on.
func (f *follower) mark() (unchanged func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, want := len(f.seen), f.describe()
	return func() {
		f.t.Helper()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, got := range f.seen[from:] {
			if got != want {
				f.t.Errorf("the endpoints were %q, want %q all the time", got, want)
			}
		}
	}
}

func (f *follower) queries() float64 { return testutil.ToFloat64(f.metrics.Queries) }
