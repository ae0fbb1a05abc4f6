package main

import (
	"context"
	"fmt"
	"math"
	"strings"

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

// previewedRule is the rule whose effect pilotctl diff shows before it is applied.
const previewedRule = "virtual-service-reviews-90-10"

// playShift counts enough requests to tell one in ten from a mistake: the count is binomial, and four standard
// deviations are missed by chance once in 16,000 runs.
func playShift(ctx context.Context, s *stage) error {
	path, err := s.place(previewedRule)
	if err != nil {
		return err
	}
	preview, err := s.ask(ctx, "diff", "-f", path, "--proxy", "productpage-v1")
	if err != nil {
		return err
	}
	s.expect(preview.code == 1 && strings.Contains(preview.text, "+ 10% outbound|9080|v3|reviews."),
		"pilotctl diff, before the change", "10% of the calls would go to v3", fmt.Sprintf("exit code %d", preview.code))
	if err := s.apply(previewedRule); err != nil {
		return err
	}
	arrival, err := s.ask(ctx, "wait", "-f", path)
	if err != nil {
		return err
	}
	code := fmt.Sprintf("exit code %d", arrival.code)
	s.expect(arrival.code == 0, "pilotctl wait", "ends when all proxies have the rule", code)
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
	reachesV2 := probe{url: mesh.ProductReviews, header: []string{jason}, want: only("v2"), times: inARow}
	if err := s.settle(ctx, effectTime, reachesV2); err != nil {
		return err
	}
	seen, err := s.count(ctx, 50, mesh.ProductReviews, jason)
	s.expect(seen.are("v2"), "50 requests with "+jason, "v2 only", seen.String())
	if err != nil {
		return err
	}
	seen, err = s.count(ctx, 50, mesh.ProductReviews)
	s.expect(seen.are("v1"), "50 requests without", "v1 only", seen.String())
	if err != nil {
		return err
	}
	why, err := s.ask(ctx, "explain", "productpage-v1", "http://reviews:9080/reviews/0", "-H", jason)
	explained := why.code == 0 &&
		strings.Contains(why.text, "VirtualService/default/reviews") &&
		strings.Contains(why.text, "|v2|")
	s.expect(explained,
		"pilotctl explain", "the rule of the VirtualService that sends jason to v2", fmt.Sprintf("exit code %d", why.code))
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
