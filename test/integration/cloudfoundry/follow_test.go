package cloudfoundry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/cloudfoundry"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/nats"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait.
const patience = 60 * time.Second

// interval is how often test emitters repeat routes. A route expires after two of them.
const interval = time.Second

// follower runs a Platform as its caller does, and has the services that it reported.
type follower struct {
	t *testing.T

	mu       sync.Mutex
	services map[string]adapter.Service
	problems map[string]error
	synced   bool
	failed   error // of the last Watch; nil while one runs
	removals []string
}

// follow runs a Platform for a server until the test ends.
func follow(t *testing.T, s *nats.Server, edit func(*cloudfoundry.Settings)) *follower {
	t.Helper()
	o := cloudfoundry.DefaultSettings()
	o.Servers, o.RegisterInterval, o.StaleThreshold = []string{s.URL}, interval, 2*interval
	if edit != nil {
		edit(&o)
	}
	p, err := cloudfoundry.New(cloudfoundry.Options{Settings: o})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, services: map[string]adapter.Service{}, problems: map[string]error{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			f.setFailed(p.Watch(ctx, f))
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// Set, Delete, Synced and Report implement adapter.Sink.

func (f *follower) Set(s adapter.Service) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.services[s.Name]
	for _, i := range before.Instances {
		if !slices.ContainsFunc(s.Instances, func(n adapter.Instance) bool { return n.ID == i.ID }) {
			f.removals = append(f.removals, s.Name+" "+i.ID)
		}
	}
	f.services[s.Name] = s
	delete(f.problems, s.Name)
}

func (f *follower) Delete(k adapter.ServiceKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.services, k.Name)
	delete(f.problems, k.Name)
}

func (f *follower) Synced() { f.SyncedGeneration("") }

func (f *follower) SyncedGeneration(string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced, f.failed = true, nil
}

func (f *follower) Report(k adapter.ServiceKey, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.problems[k.Name] = err; err == nil {
		delete(f.problems, k.Name)
	}
}

func (f *follower) setFailed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = err
}

// state returns the state as text: "web.test: 10.0.0.1:80 10.0.0.2:80; not synced".
func (f *follower) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.services)) {
		text := name + ":"
		for _, i := range f.services[name].Instances {
			text += " " + i.ID
		}
		parts = append(parts, text)
	}
	if !f.synced {
		parts = append(parts, "not synced")
	}
	return strings.Join(parts, "; ")
}

func (f *follower) await(want string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, fmt.Sprintf("the routes are %q", want), func() error {
		if got := f.state(); got != want {
			return fmt.Errorf("they are %q, and Watch returned %w", got, f.failure())
		}
		return nil
	})
}

// awaitFailure waits until Watch fails with an error that contains want, or runs if want is "".
func (f *follower) awaitFailure(want string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, fmt.Sprintf("the platform has the failure %q", want), func() error {
		err := f.failure()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			return fmt.Errorf("its failure is %w", err)
		}
		return nil
	})
}

func (f *follower) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// awaitProblem waits until a route ("" for the platform) has a problem that contains want, or none.
func (f *follower) awaitProblem(route, want string) {
	f.t.Helper()
	serving.Eventually(f.t, patience, fmt.Sprintf("%q has the problem %q", route, want), func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		err := f.problems[route]
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			return fmt.Errorf("its problem is %w", err)
		}
		return nil
	})
}

// requireNoRemoval fails the test if an instance was removed since it was called last.
func (f *follower) requireNoRemoval() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.removals) > 0 {
		f.t.Errorf("removed: %v", f.removals)
	}
	f.removals = nil
}

// instanceOf returns the route of an instance with an address.
func instanceOf(host, address string) nats.Route {
	return nats.Route{Host: address, Port: 80, URIs: []string{host}, App: host, PrivateInstanceID: address}
}
