package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

const (
	// downTime is how long the mesh is left alone.
	downTime = 3 * time.Second
	// reconnectTime bounds the wait for the proxies to come back: Envoy waits between tries, up to 30 s.
	reconnectTime = 45 * time.Second
)

func playRestart(ctx context.Context, s *stage) error {
	s.expectNoRejects(ctx)
	s.screen.Say("kill -TERM of pilot-discovery")
	begin := time.Now()
	err := s.mesh.ControlPlane.Stop()
	ended := orNil(err, "ended with status 0 after %s", time.Since(begin).Round(time.Millisecond))
	s.expect(err == nil, "the control plane", "ends with status 0", ended)

	down, cancel := context.WithTimeout(ctx, downTime)
	defer cancel()
	seen := counts{}
	for down.Err() == nil {
		if a := s.client.Get(ctx, mesh.ProductReviews); ctx.Err() == nil {
			seen[a.Version()]++
		}
	}
	s.expect(seen.are("v1", "v3"), "requests while it is down", "as before, v1 and v3", seen.String())

	begin = time.Now()
	if err := s.mesh.ControlPlane.Start(ctx); err != nil {
		return err
	}
	s.screen.Say("started again, ready after %s", time.Since(begin).Round(time.Millisecond))
	if err := s.apply("virtual-service-reviews-v3"); err != nil {
		return err
	}
	if err := s.settle(ctx, reconnectTime, probe{url: mesh.ProductReviews, want: only("v3"), times: inARow}); err != nil {
		return err
	}
	seen, err = s.count(ctx, 100, mesh.ProductReviews)
	s.expect(seen.are("v3"), "100 requests", "v3 only", seen.String())
	s.expectNoRejects(ctx)
	s.expectUpToDate(ctx)
	return err
}

func orNil(err error, format string, args ...any) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(format, args...)
}

// expectNoRejects reads the control plane's own count of what proxies refused.
func (s *stage) expectNoRejects(ctx context.Context) {
	const rejects = "pilot_total_xds_rejects"
	n, err := s.metric(ctx, rejects)
	s.expect(err == nil && n == 0, rejects, "0", orNil(err, "%.0f", n))
}

// expectUpToDate waits until no proxy is behind or rejects its configuration, as on the overview of
// the web console.
func (s *stage) expectUpToDate(ctx context.Context) {
	caller := mesh.NewCaller(s.mesh.ControlPlane.Node)
	defer caller.Close()
	var now struct{ Proxies, Behind, Rejecting int }
	var err error
	upToDate := func() bool {
		return err == nil && now.Proxies == len(s.mesh.Workloads) && now.Behind+now.Rejecting == 0
	}
	for begin := time.Now(); ctx.Err() == nil && time.Since(begin) < reconnectTime; pause(ctx, 50*time.Millisecond) {
		a := caller.Get(ctx, "http://127.0.0.1:15014/api/v1/overview")
		if err = json.Unmarshal(a.Body, &now); upToDate() {
			break
		}
	}
	s.expect(upToDate(), "proxies in the web console", "all up to date",
		orNil(err, "%d, of which %d behind, %d rejecting", now.Proxies, now.Behind, now.Rejecting))
}

// metric returns the sum of the control plane's metrics with this name, and 0 if there is none.
func (s *stage) metric(ctx context.Context, name string) (float64, error) {
	const alive = "pilot_xds_pushes"
	caller := mesh.NewCaller(s.mesh.ControlPlane.Node)
	defer caller.Close()
	a := caller.Get(ctx, "http://127.0.0.1:15014/metrics")
	sum, pushes := 0.0, false
	for line := range strings.Lines(string(a.Body)) {
		pushes = pushes || strings.HasPrefix(line, alive)
		labeled, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		found, _, _ := strings.Cut(labeled, "{")
		var n float64
		if _, err := fmt.Sscan(value, &n); found == name && err == nil {
			sum += n
		}
	}
	if a.Status != http.StatusOK || !pushes {
		return 0, fmt.Errorf("no metrics: %s", a)
	}
	return sum, nil
}

// awaitMetric waits until a metric of the control plane is as wanted.
func (s *stage) awaitMetric(ctx context.Context, name string, want func(float64) bool) error {
	for begin := time.Now(); ; pause(ctx, 50*time.Millisecond) {
		n, err := s.metric(ctx, name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && want(n):
			return nil
		case time.Since(begin) > consulTime:
			return errors.Join(fmt.Errorf("%s is %v after %s", name, n, consulTime), err)
		}
	}
}
