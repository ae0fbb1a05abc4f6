package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

// delay is what virtual-service-ratings-test-delay says, early what Envoy's timers may take off
// (their clock is read once per turn of its event loop), slack what a busy machine may add.
const (
	delay = 2 * time.Second
	early = 50 * time.Millisecond
	slack = time.Second
)

func status(code int) func(mesh.Answer) bool {
	return func(a mesh.Answer) bool { return a.Status == code }
}

func took(a mesh.Answer) string {
	return fmt.Sprintf("%d after %s", a.Status, a.Took.Round(100*time.Microsecond))
}

func playFaults(ctx context.Context, s *stage) error {
	if err := s.apply("virtual-service-ratings-test-delay"); err != nil {
		return err
	}
	late := func(a mesh.Answer) bool {
		return a.Status == http.StatusOK && a.Took >= delay-early && a.Took < delay+slack
	}
	if err := s.settle(ctx, effectTime, probe{url: mesh.Ratings, want: late, times: 1}); err != nil {
		return err
	}
	a := s.client.Get(ctx, mesh.Ratings)
	s.expect(late(a), "ratings", "200 after 2 s", took(a))
	a = s.client.Get(ctx, mesh.ProductReviews, jason)
	whole := late(a) && a.Version() == "v2" && a.Complete() == nil
	s.expect(whole, "jason's reviews, with stars", "200 after 2 s", took(a))

	if err := s.apply("virtual-service-ratings-test-abort"); err != nil {
		return err
	}
	fails := probe{url: mesh.Ratings, want: status(http.StatusInternalServerError), times: 1}
	if err := s.settle(ctx, effectTime, fails); err != nil {
		return err
	}
	a = s.client.Get(ctx, mesh.Ratings)
	s.expect(a.Status == http.StatusInternalServerError && a.Took < delay, "ratings", "500 at once", took(a))
	a = s.client.Get(ctx, mesh.ProductReviews, jason)
	apology := a.Complete()
	s.expect(a.Version() == "v2" && apology != nil, "jason's reviews", "there, and say that ratings are not",
		fmt.Sprintf("%d, %v", a.Status, apology))
	return nil
}

// playRetry asks ratings to fail the first two requests of a request id. The one that the client sends can only
// succeed if its sidecar sends it three times.
func playRetry(ctx context.Context, s *stage) error {
	if err := s.remove("VirtualService", "ratings"); err != nil {
		return err
	}
	if err := s.settle(ctx, effectTime, probe{url: mesh.Ratings, want: status(http.StatusOK), times: inARow}); err != nil {
		return err
	}
	a := s.client.Get(ctx, mesh.Ratings, "x-request-id: no-retry", "x-fail-first: 2")
	s.expect(a.Status == http.StatusInternalServerError, "a request that ratings fails twice", "500", attempts(a))

	if err := s.apply("virtual-service-ratings-retry"); err != nil {
		return err
	}
	recovers := probe{
		url:    mesh.Ratings,
		header: []string{"x-fail-first: 1"}, // Envoy gives each a request id of its own
		want:   status(http.StatusOK),
		times:  1,
	}
	if err := s.settle(ctx, effectTime, recovers); err != nil {
		return err
	}
	a = s.client.Get(ctx, mesh.Ratings, "x-request-id: retry", "x-fail-first: 2")
	succeeded := a.Status == http.StatusOK && a.Header.Get("x-attempt") == "3"
	s.expect(succeeded, "a request that ratings fails twice", "200 at the 3rd attempt", attempts(a))
	a = s.client.Get(ctx, mesh.Ratings, "x-request-id: give-up", "x-fail-first: 99")
	gaveUp := a.Status == http.StatusInternalServerError && a.Header.Get("x-attempt") == "4"
	s.expect(gaveUp, "a request that ratings always fails", "500 at the 4th attempt, the last", attempts(a))
	return nil
}

func attempts(a mesh.Answer) string {
	if n := a.Header.Get("x-attempt"); n != "" {
		return fmt.Sprintf("%d at attempt %s", a.Status, n)
	}
	return a.String()
}

func playTimeout(ctx context.Context, s *stage) error {
	for _, rule := range []string{"virtual-service-ratings-test-delay", "virtual-service-reviews-timeout"} {
		if err := s.apply(rule); err != nil {
			return err
		}
	}
	timesOut := probe{url: mesh.Reviews, want: status(http.StatusGatewayTimeout), times: 1}
	if err := s.settle(ctx, effectTime, timesOut); err != nil {
		return err
	}
	a := s.client.Get(ctx, mesh.Reviews)
	s.expect(a.Status == http.StatusGatewayTimeout && a.Took >= 450*time.Millisecond && a.Took < delay,
		"reviews v2, which wait 2 s for ratings", "504 after 0.5 s", took(a)+" "+strings.TrimSpace(string(a.Body)))
	if err := s.remove("VirtualService", "ratings"); err != nil {
		return err
	}
	return s.settle(ctx, effectTime, probe{url: mesh.Reviews, want: status(http.StatusOK), times: inARow})
}
