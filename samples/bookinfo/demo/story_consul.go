package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

// The metrics of the control plane that show the state of Consul.
const (
	failingQueries = "meshpilot_consul_failing_queries"
	heldInstances  = "meshpilot_consul_held_instances"
)

// consulTime bounds the wait for the control plane to notice a change of the Consul server. It is more
// than the longest pause between two attempts to reach it, 30 s.
const consulTime = 45 * time.Second

// consulStory is the story of services that are registered in Consul. Requests run during all scenes.
func consulStory() []scene {
	return []scene{
		{title: "Services come from Consul, and all versions of reviews answer in turn", load: true, play: playConsulServices},
		{title: "Routing rules apply to services in Consul", load: true, play: playConsulRules},
		{title: "A version is deregistered, and registered again", load: true, play: playDeregistration},
		{title: "A health check fails, and recovers", load: true, play: playHealthCheck},
		{title: "The Consul server is killed, and comes back with its data", load: true, play: playConsulRestart},
		{title: "The Consul server is killed, and comes back without its data", load: true, play: playConsulDataLoss},
	}
}

// reviewsInConsul is the URL of the load and of the probes.
func reviewsInConsul() string { return mesh.ConsulURL(mesh.Reviews) }

// countedInConsul is the number of requests whose versions are counted: one version in ten is not
// among them once in a billion times. consulInARow is the number of answers in a row that show that one
// version of three no longer answers, which come by chance as rarely.
const (
	countedInConsul = 200
	consulInARow    = 50
)

// expectVersions waits until only these versions of reviews answer, and all of them.
func (s *stage) expectVersions(ctx context.Context, versions ...string) error {
	url, begin := reviewsInConsul(), time.Now()
	for _, v := range versions {
		if _, err := s.awaitProbe(ctx, effectTime, probe{url: url, want: only(v), times: 1}); err != nil {
			return err
		}
	}
	before := time.Since(begin)
	since, err := s.awaitProbe(ctx, effectTime, probe{url: url, want: only(versions...), times: consulInARow})
	if err != nil {
		return err
	}
	s.screen.Say("in effect after %s", (before + since).Round(time.Millisecond))
	seen, err := s.count(ctx, countedInConsul, url)
	requests := fmt.Sprint(countedInConsul, " requests")
	s.expect(seen.are(versions...), requests, fmt.Sprintf("%v only", versions), seen.String())
	return err
}

func playConsulServices(ctx context.Context, s *stage) error {
	if err := s.expectVersions(ctx, "v1", "v2", "v3"); err != nil {
		return err
	}
	if err := s.applyFile(bookinfo.ConsulRulePath("mutual-tls")); err != nil {
		return err
	}
	// The node of the Consul server has no sidecar, so it calls in plain text.
	outside := mesh.NewCaller(s.mesh.Consul.Servers[0].Node)
	defer outside.Close()
	pod := s.mesh.Workload("reviews-v1")
	a := mesh.Answer{Status: http.StatusOK}
	end := time.Now().Add(effectTime)
	for ; a.Err == nil && time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		a = outside.GetOnce(ctx, "http://"+pod.Pod.Status.PodIP+":9080/reviews/0")
	}
	s.expect(a.Err != nil, "a call in plain text to reviews-v1", "the connection is closed", a.String())
	seen, err := s.count(ctx, 60, mesh.ConsulURL(mesh.ProductReviews))
	s.expect(seen.are("v1", "v2", "v3"), "60 requests through productpage", "v1, v2 and v3 over mutual TLS", seen.String())
	return err
}

func playConsulRules(ctx context.Context, s *stage) error {
	if err := s.applyFile(bookinfo.ConsulRulePath("reviews-90-10")); err != nil {
		return err
	}
	if err := s.expectVersions(ctx, "v1", "v3"); err != nil {
		return err
	}
	if err := s.applyFile(bookinfo.ConsulRulePath("reviews-all")); err != nil {
		return err
	}
	return s.expectVersions(ctx, "v1", "v2", "v3")
}

func playDeregistration(ctx context.Context, s *stage) error {
	s.screen.Say("consul services deregister -id reviews-v2")
	if err := s.mesh.Consul.Deregister("reviews-v2"); err != nil {
		return err
	}
	if err := s.expectVersions(ctx, "v1", "v3"); err != nil {
		return err
	}
	s.screen.Say("consul services register reviews-v2.hcl")
	if err := s.mesh.Consul.Register("reviews-v2"); err != nil {
		return err
	}
	return s.expectVersions(ctx, "v1", "v2", "v3")
}

func playHealthCheck(ctx context.Context, s *stage) error {
	s.screen.Say("reviews-v3 answers 503 at /health, which Consul checks twice a second")
	if err := s.mesh.Workload("reviews-v3").SetHealthy(false); err != nil {
		return err
	}
	if err := s.expectVersions(ctx, "v1", "v2"); err != nil {
		return err
	}
	s.screen.Say("reviews-v3 answers 200 at /health")
	if err := s.mesh.Workload("reviews-v3").SetHealthy(true); err != nil {
		return err
	}
	return s.expectVersions(ctx, "v1", "v2", "v3")
}

func playConsulRestart(ctx context.Context, s *stage) error {
	if err := s.killConsul(ctx); err != nil {
		return err
	}
	s.screen.Say("a rule is changed while Consul is down")
	if err := s.applyFile(bookinfo.ConsulRulePath("reviews-v3")); err != nil {
		return err
	}
	if err := s.expectVersions(ctx, "v3"); err != nil {
		return err
	}
	if err := s.applyFile(bookinfo.ConsulRulePath("reviews-all")); err != nil {
		return err
	}
	if err := s.expectVersions(ctx, "v1", "v2", "v3"); err != nil {
		return err
	}
	if err := s.startConsul(ctx); err != nil {
		return err
	}
	held, err := s.metric(ctx, heldInstances)
	s.expect(held == 0 && err == nil, "instances that are kept although Consul does not list them", "0", fmt.Sprint(held))
	if err != nil {
		return err
	}
	return playDeregistration(ctx, s)
}

// killConsul kills the Consul server and waits until the control plane has noticed.
func (s *stage) killConsul(ctx context.Context) error {
	s.screen.Say("kill -KILL of the Consul server")
	if err := s.mesh.Consul.Servers[0].Kill(ctx); err != nil {
		return err
	}
	if err := s.awaitMetric(ctx, failingQueries, func(n float64) bool { return n > 0 }); err != nil {
		return err
	}
	seen, err := s.count(ctx, 60, reviewsInConsul())
	s.expect(seen.are("v1", "v2", "v3"), "60 requests without a Consul server", "v1, v2 and v3", seen.String())
	return err
}

// startConsul starts the Consul server and waits until the control plane reads it again.
func (s *stage) startConsul(ctx context.Context) error {
	begin := time.Now()
	if err := s.mesh.Consul.Servers[0].Start(ctx); err != nil {
		return err
	}
	s.screen.Say("the Consul server is started again, with a leader after %s", time.Since(begin).Round(time.Millisecond))
	if err := s.awaitMetric(ctx, failingQueries, func(n float64) bool { return n == 0 }); err != nil {
		return err
	}
	s.screen.Say("the control plane reads it after %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

func playConsulDataLoss(ctx context.Context, s *stage) error {
	resets, err := s.metric(ctx, "meshpilot_consul_resets_total")
	if err != nil {
		return err
	}
	if err := s.killConsul(ctx); err != nil {
		return err
	}
	if err := s.mesh.Consul.Servers[0].DeleteData(); err != nil {
		return err
	}
	s.screen.Say("the data of the Consul server are deleted")
	if err := s.startConsul(ctx); err != nil {
		return err
	}
	if err := s.awaitMetric(ctx, "meshpilot_consul_resets_total", func(n float64) bool { return n > resets }); err != nil {
		return err
	}
	s.expect(true, "the control plane", "notices that the server lost its data, and keeps all instances", "noticed")
	begin := time.Now()
	if err := s.mesh.Consul.AwaitHealthy(ctx); err != nil {
		return err
	}
	if err := s.awaitMetric(ctx, heldInstances, func(n float64) bool { return n == 0 }); err != nil {
		return err
	}
	s.screen.Say("the Consul agent has registered its %d instances again after %s", s.mesh.Consul.Instances(), time.Since(begin).Round(time.Millisecond))
	if err := playDeregistration(ctx, s); err != nil {
		return err
	}
	s.expectNoRejects(ctx)
	return nil
}
