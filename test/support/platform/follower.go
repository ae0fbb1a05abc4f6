// Package platform runs an adapter.Platform in a test and keeps the services that it reports.
//
// A [Follower] calls Watch again after each error, and applies reports as the documentation of
// adapter.Sink says, but without the guard against removals: what a Follower removes, the platform itself
// has reported as removed. Start with [Follow].
//
// [RunConformance] is the suite that every platform passes on its server. [RequireLarge] and [RequireMany]
// check services with 10,000 instances.
package platform

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// patience is the timeout of each wait for the platform.
	patience = 90 * time.Second
	// retryPause is the pause after an error of Watch.
	retryPause = 100 * time.Millisecond
)

// Follower keeps the services that a Platform reports.
type Follower struct {
	t testing.TB

	mu       sync.Mutex
	services map[adapter.ServiceKey]adapter.Service
	problems map[adapter.ServiceKey]string
	// reported has the services that the current call of Watch has reported. It is nil after Synced.
	reported map[adapter.ServiceKey]bool
	synced   bool
	err      error    // of the last call of Watch, until the next Synced
	seen     []string // the descriptions of all states so far, the newest last
	sets     int
}

// Follow runs the platform until the test ends.
func Follow(t testing.TB, p adapter.Platform) *Follower {
	t.Helper()
	f := &Follower{t: t, services: map[adapter.ServiceKey]adapter.Service{}, problems: map[adapter.ServiceKey]string{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			f.begin()
			err := p.Watch(ctx, f)
			f.mu.Lock()
			f.err = err
			f.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(retryPause):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return f
}

func (f *Follower) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = map[adapter.ServiceKey]bool{}
}

// Set implements adapter.Sink.
func (f *Follower) Set(s adapter.Service) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sets++
	f.services[s.ServiceKey] = s
	delete(f.problems, s.ServiceKey)
	f.record(s.ServiceKey)
	if _, errs := adapter.NewEntries("test", s); len(errs) > 0 {
		f.t.Errorf("service %s is invalid: %v", s.ServiceKey, errs)
	}
}

// Delete implements adapter.Sink.
func (f *Follower) Delete(key adapter.ServiceKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.problems, key)
	if f.reported == nil {
		delete(f.services, key)
		f.record(key)
	}
}

// Synced implements adapter.Sink.
func (f *Follower) Synced() { f.SyncedGeneration("") }

// SyncedGeneration implements adapter.Sink. What was not reported is removed in any generation.
func (f *Follower) SyncedGeneration(string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.services, func(key adapter.ServiceKey, _ adapter.Service) bool { return !f.reported[key] })
	f.reported, f.synced, f.err = nil, true, nil
	f.seen = append(f.seen, f.describe())
}

// Report implements adapter.Sink.
func (f *Follower) Report(key adapter.ServiceKey, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.problems, key)
	if err != nil {
		f.problems[key] = err.Error()
		f.record(key)
	}
}

func (f *Follower) record(key adapter.ServiceKey) {
	if f.reported != nil {
		f.reported[key] = true
	}
	f.seen = append(f.seen, f.describe())
}

// describe returns the services: "80.web.example: 192.0.2.1:8080 192.0.2.2:8080=draining".
func (f *Follower) describe() string {
	var lines []string
	for key, s := range f.services {
		var list []string
		for _, i := range s.Instances {
			text := i.ID
			if i.Health != adapter.Healthy {
				text += "=" + i.Health.String()
			}
			list = append(list, text)
		}
		slices.Sort(list)
		lines = append(lines, key.Name+": "+strings.Join(list, " "))
	}
	slices.Sort(lines)
	if !f.synced {
		lines = append(lines, "not synced")
	}
	return strings.Join(lines, "; ")
}

// Await waits until the services are as described.
func (f *Follower) Await(want string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, want, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := f.describe(); got != want {
			return fmt.Errorf("%q; problems %v; error %w", got, f.problems, f.err)
		}
		return nil
	})
}

// AwaitProblem waits until a problem or the error of Watch contains the text, or with "" until there is
// neither.
func (f *Follower) AwaitProblem(text string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, "problem "+text, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if text == "" && len(f.problems) == 0 && f.err == nil && f.reported == nil {
			return nil
		}
		for _, p := range f.problems {
			if text != "" && strings.Contains(p, text) {
				return nil
			}
		}
		if text != "" && f.err != nil && strings.Contains(f.err.Error(), text) {
			return nil
		}
		return fmt.Errorf("problems %v; error %w", f.problems, f.err)
	})
}

// Service returns a service by its name.
func (f *Follower) Service(name string) adapter.Service {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, s := range f.services {
		if key.Name == name {
			return s
		}
	}
	f.t.Fatalf("no service %s in %s", name, f.describe())
	return adapter.Service{}
}

// Sets returns how many services were reported so far.
func (f *Follower) Sets() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sets
}

// Mark returns a function that fails the test if the services have been different from now on.
func (f *Follower) Mark() (unchanged func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, want := len(f.seen), f.describe()
	return func() {
		f.t.Helper()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, got := range f.seen[from:] {
			if got != want {
				f.t.Errorf("the services were %q, want %q all the time", got, want)
			}
		}
	}
}
