package main

import (
	"context"
	"fmt"
	"math"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

func playInTurn(ctx context.Context, s *stage) error {
	seen, err := s.count(ctx, 60, mesh.ProductReviews)
	s.expect(seen.are("v1", "v2", "v3"), "60 requests", "each of v1, v2 and v3, and nothing else", seen.String())
	return err
}

func playAllV1(ctx context.Context, s *stage) error {
	for _, rule := range []string{"destination-rule-all", "virtual-service-all-v1"} {
		if err := s.apply(rule); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, effectTime, probe{url: mesh.ProductReviews, want: only("v1"), times: inARow}); err != nil {
		return err
	}
	seen, err := s.count(ctx, 100, mesh.ProductReviews)
	s.expect(seen.are("v1"), "100 requests", "v1 only", seen.String())
	return err
}

// playShift counts enough requests to tell one in ten from a mistake: the count is binomial, and four standard
// deviations are missed by chance once in 16,000 runs.
func playShift(ctx context.Context, s *stage) error {
	if err := s.apply("virtual-service-reviews-90-10"); err != nil {
		return err
	}
	if err := s.settle(ctx, effectTime, probe{url: mesh.Reviews, want: only("v3"), times: 1}); err != nil {
		return err
	}
	const n, share, sigmas = 1000, 0.10, 4
	margin := sigmas * math.Sqrt(n*share*(1-share))
	least, most := int(math.Ceil(n*share-margin)), int(n*share+margin)
	seen, err := s.count(ctx, n, mesh.Reviews)
	s.expect(seen.are("v1", "v3") && seen["v3"] >= least && seen["v3"] <= most,
		fmt.Sprintf("%d requests", n), fmt.Sprintf("v1, and v3 between %d and %d times: 100 ± %d standard deviations", least, most, sigmas),
		seen.String())
	return err
}

// jason is the header that productpage sets for a user who signed in, and that it passes on.
const jason = "end-user: jason"

func playUser(ctx context.Context, s *stage) error {
	if err := s.apply("virtual-service-reviews-test-v2"); err != nil {
		return err
	}
	if err := s.settle(ctx, effectTime, probe{url: mesh.ProductReviews, header: []string{jason}, want: only("v2"), times: inARow}); err != nil {
		return err
	}
	seen, err := s.count(ctx, 50, mesh.ProductReviews, jason)
	s.expect(seen.are("v2"), "50 requests with "+jason, "v2 only", seen.String())
	if err != nil {
		return err
	}
	seen, err = s.count(ctx, 50, mesh.ProductReviews)
	s.expect(seen.are("v1"), "50 requests without", "v1 only", seen.String())
	return err
}

// playSubset changes the VirtualService and the DestinationRule in one step: between a route and the cluster that it
// names, order is the control plane's business.
func playSubset(ctx context.Context, s *stage) error {
	for _, step := range []struct {
		rule     string
		versions []string
		sign     probe
	}{
		{"reviews-with-v3", []string{"v1", "v3"}, probe{want: only("v3"), times: 1}},
		{"reviews-without-v3", []string{"v1", "v2"}, probe{want: only("v1", "v2"), times: inARow}},
		{"reviews-with-v3", []string{"v1", "v3"}, probe{want: only("v1", "v3"), times: inARow}},
	} {
		if err := s.apply(step.rule); err != nil {
			return err
		}
		step.sign.url = mesh.Reviews
		if err := s.settle(ctx, effectTime, step.sign); err != nil {
			return err
		}
		seen, err := s.count(ctx, 200, mesh.Reviews)
		s.expect(seen.are(step.versions...), "200 requests", fmt.Sprintf("%v only", step.versions), seen.String())
		if err != nil {
			return err
		}
	}
	return nil
}
