package platform

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Large is the number of instances of the service in tests of large services.
const Large = 10_000

// largePatience limits how long a platform may take to report a large service.
const largePatience = 3 * time.Minute

// RequireLarge runs a platform whose server lists one service with Large instances, as the control plane
// does. It waits until all are in use, calls removeOne, which must deregister one of them, and waits until
// one is missing. All instances must become endpoints.
func RequireLarge(t testing.TB, p adapter.Platform, removeOne func()) {
	t.Helper()
	endpoints := 0
	f := adapter.NewFollower(p, adapter.FollowOptions{}, func(c adapter.Change) {
		for _, s := range c.Set {
			entries, problems := adapter.NewEntries("test", s)
			if len(problems) > 0 {
				t.Errorf("service %s: %v", s, problems[0])
			}
			endpoints = 0
			for _, e := range entries {
				endpoints += len(e.Spec.GetEndpoints())
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	began := time.Now()
	await := func(want int) {
		t.Helper()
		serving.Eventually(t, largePatience, fmt.Sprintf("%d instances", want), func() error {
			if s := f.Status(); !s.Synced || s.Services != 1 || s.Instances != want || s.Problems > 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	await(Large)
	t.Logf("%d instances are in use after %v", Large, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	removeOne()
	await(Large - 1)
	t.Logf("one is removed after %v", time.Since(began).Round(time.Millisecond))
	stop()
	if endpoints != Large-1 {
		t.Errorf("%d endpoints", endpoints)
	}
}
