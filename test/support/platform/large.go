package platform

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// Large is the number of instances in tests of large services and of many services.
	Large = 10_000
	// Many is the number of services in tests of many services.
	Many = 1000
	// largePatience limits how long a platform may take to report all services.
	largePatience = 3 * time.Minute
)

// RequireLarge runs a platform whose server lists one service with Large instances, as the control plane
// does. It waits until all are in use, calls removeOne, which must deregister one of them, and waits until
// one is missing. All instances must become endpoints.
func RequireLarge(t testing.TB, p adapter.Platform, removeOne func()) {
	t.Helper()
	requireRemoval(t, p, 1, removeOne)
}

// RequireMany is RequireLarge for Many services that have Large instances in all. After removeOne, the platform
// may report a change of one service only.
func RequireMany(t testing.TB, p adapter.Platform, removeOne func()) {
	t.Helper()
	requireRemoval(t, p, Many, removeOne)
}

// requireRemoval is RequireLarge for a number of services.
func requireRemoval(t testing.TB, p adapter.Platform, services int, removeOne func()) {
	t.Helper()
	c := &counter{t: t, endpoints: map[adapter.ServiceKey]int{}}
	f := adapter.NewFollower(p, adapter.FollowOptions{}, c.apply)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	await := func(want int) {
		t.Helper()
		serving.Eventually(t, largePatience, fmt.Sprintf("%d instances", want), func() error {
			if s := f.Status(); !s.Synced || s.Services != services || s.Instances != want || s.Problems > 0 {
				return fmt.Errorf("%+v", s)
			}
			if n := c.total(); n != want {
				return fmt.Errorf("%d endpoints", n)
			}
			return nil
		})
	}
	began := time.Now()
	await(Large)
	t.Logf("%d instances of %d services are in use after %v", Large, services, time.Since(began).Round(time.Millisecond))
	before := c.reported()
	began = time.Now()
	removeOne()
	await(Large - 1)
	t.Logf("one is removed after %v", time.Since(began).Round(time.Millisecond))
	stop()
	if n := c.reported() - before; n != 1 {
		t.Errorf("%d services changed, want one", n)
	}
}

// counter counts the services that a Follower reports, and their endpoints.
type counter struct {
	t testing.TB

	mu        sync.Mutex
	sets      int
	endpoints map[adapter.ServiceKey]int
}

// apply is the callback of a Follower.
func (c *counter) apply(change adapter.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range change.Set {
		entries, problems := adapter.NewEntries("test", s)
		if len(problems) > 0 {
			c.t.Errorf("service %s: %v", s, problems[0])
		}
		c.sets++
		c.endpoints[s.ServiceKey] = 0
		for _, e := range entries {
			c.endpoints[s.ServiceKey] += len(e.Spec.GetEndpoints())
		}
	}
}

// reported returns how many times a service was set.
func (c *counter) reported() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets
}

// total returns the number of endpoints of all services.
func (c *counter) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, n := range c.endpoints {
		total += n
	}
	return total
}
