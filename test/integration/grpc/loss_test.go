package grpc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// change is a change of rules and endpoints, with the servers that answer after it.
type change struct {
	name string
	// rules and services are the files after it; empty: unchanged.
	rules, services string
	// answers are the servers that answer after it: all of them, and no others.
	answers []string
	// known is set if its routes use only destinations of earlier routes, perhaps with weight 0.
	known bool
}

// shares returns a route with weights.
func shares(v1, v2 int) string {
	return fmt.Sprintf("  - retries: {attempts: 0}\n    route: [{destination: {host: echo, subset: v1}, weight: %d}, {destination: {host: echo, subset: v2}, weight: %d}]\n", v1, v2)
}

func to(subsets ...string) string {
	var b strings.Builder
	for _, s := range subsets {
		fmt.Fprintf(&b, "%s{destination: {host: echo, subset: %s}, weight: %d}", map[bool]string{true: ", "}[b.Len() > 0], s, 100/len(subsets))
	}
	return "  - retries: {attempts: 0}\n    route: [" + b.String() + "]\n"
}

// unready returns all pods, with one of them not ready.
func unready(name string) string {
	others := slices.DeleteFunc([]string{"v1", "v2", "client"}, func(p string) bool { return p == name })
	return pods(others...) + strings.Replace(pods(name), `status: "True"`, `status: "False"`, 1)
}

// selected is the service, for one version.
func selected(version string) string {
	return strings.Replace(echo, "{app: echo}", "{app: echo, version: "+version+"}", 1)
}

// changes begin and end with neither rules nor subsets.
func changes() []change {
	const hashed = "  trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: user}}}\n"
	both := []string{"v1", "v2"}
	more := strings.Replace(rule(""), "subsets: [", "subsets: [{name: other, labels: {app: echo, version: v2}}, ", 1)
	return []change{
		{name: "a route to subsets that are new", rules: rule("") + "---\n" + routes(to("v1")), answers: both[:1]},
		{name: "all to another subset", rules: rule("") + "---\n" + routes(to("v2")), answers: both[1:]},
		{name: "a split", rules: rule("") + "---\n" + routes(to("v1", "v2")), answers: both},
		{name: "a share of 0", known: true, rules: rule("") + "---\n" + routes(shares(100, 0)), answers: both[:1]},
		{name: "a share of 0 grows", known: true, rules: rule("") + "---\n" + routes(shares(80, 20)), answers: both},
		{name: "all calls to one version", known: true, rules: rule("") + "---\n" + routes(shares(0, 100)), answers: both[1:]},
		{name: "and back", known: true, rules: rule("") + "---\n" + routes(shares(100, 0)), answers: both[:1]},
		{name: "a subset is added with its route", rules: more + "---\n" + routes(to("other")), answers: both[1:]},
		{name: "the subset is removed with its route", rules: rule("") + "---\n" + routes(to("v1")), answers: both[:1]},
		{name: "calls are hashed", rules: rule(hashed) + "---\n" + routes(to("v1", "v2")), answers: both},
		{name: "a pod is not ready, and the rules go", rules: "#", services: echo + unready("v2"), answers: both[:1]},
		{name: "it is ready", services: echo + pods("v1", "v2", "client"), answers: both},
		{name: "the service selects others", services: selected("v2") + pods("v1", "v2", "client"), answers: both[1:]},
		{name: "and others again", services: selected("v1") + pods("v1", "v2", "client"), answers: both[:1]},
		{name: "and all", services: echo + pods("v1", "v2", "client"), answers: both},
		{name: "rules again", rules: rule("") + "---\n" + routes(to("v2")), answers: both[1:]},
		{name: "all rules go", rules: "#", answers: both},
	}
}

// stream makes calls continuously, and counts the results.
type stream struct {
	caller
	mu   sync.Mutex
	sent int
	// lost counts failed calls by change and error; early counts calls that grpc-go failed itself,
	// see ofItsOwn.
	lost   map[string]int
	early  int
	during change
}

// ofItsOwn reports whether a call failed inside of grpc-go (1.85): for a moment a channel chooses
// clusters by new routes before its balancer has them. A rule that refers to a cluster that the
// client has not called before fails the calls of that moment, which no order of pushes can
// prevent. The reverse is rarer: a channel keeps the balancer of a cluster that its new routes do
// not name while calls use it, and updates it with a configuration that lacks the cluster.
func ofItsOwn(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unknown cluster selected for RPC") ||
		strings.Contains(text, "did not find the cluster") && strings.Contains(text, "in XDSConfig")
}

// callPause is the pause between the calls of one caller.
const callPause = time.Millisecond

// begin calls with several callers at once, each call after the last, until the returned function is called.
func (s *stream) begin(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			pause := time.NewTicker(callPause)
			defer pause.Stop()
			for ctx.Err() == nil {
				s.one(context.WithoutCancel(ctx))
				<-pause.C
			}
		})
	}
	return func() { stop(); running.Wait() }
}

func (s *stream) one(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := s.UnaryCall(ctx, new(testpb.SimpleRequest))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	switch {
	case err == nil:
	case ofItsOwn(err) && !s.during.known:
		s.early++
	default:
		s.lost[s.during.name+": "+err.Error()]++
	}
}

func (s *stream) now(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.during = c
}

// TestNoCallIsLost: rules, subsets and endpoints change under load.
func TestNoCallIsLost(t *testing.T) {
	m := newMesh(t)
	m.start()
	m.apply("services", echo+pods("v1", "v2", "client"))
	v1, v2, client := m.join("v1", "echo", v1Address), m.join("v2", "echo", v2Address), m.join("client", "client", clientAddress)
	for _, serving := range []<-chan struct{}{v1.serve(t, port), v2.serve(t, port)} {
		select {
		case <-serving: // before that, the server resets connections
		case <-time.After(patience):
			t.Fatal("a server has not received its configuration")
		}
	}
	// Retries would hide lost calls.
	s := &stream{lost: map[string]int{}, caller: client.dial(t, target, grpc.WithDisableRetry())}
	s.eventuallyAnswer([]string{"v1", "v2"})
	end := s.begin(t.Context())
	for range lossRounds {
		for _, c := range changes() {
			s.now(c)
			if c.rules != "" {
				m.apply("rules", c.rules)
			}
			if c.services != "" {
				m.apply("services", c.services)
			}
			s.eventuallyAnswer(c.answers)
		}
		s.now(change{name: "changes at once"})
		for _, c := range changes() {
			if c.rules != "" {
				m.apply("rules", c.rules)
			}
			if c.services != "" {
				m.apply("services", c.services)
			}
			time.Sleep(20 * time.Millisecond)
		}
		s.eventuallyAnswer([]string{"v1", "v2"})
	}
	end()
	t.Logf("%d calls through %d changes: %d lost, and %d by grpc-go itself", s.sent, 2*lossRounds*len(changes()), len(s.lost), s.early)
	for why, n := range s.lost {
		t.Errorf("%d are lost: %s", n, why)
	}
	if s.sent < 1000 {
		t.Errorf("%d calls prove little", s.sent)
	}
}

// lossRounds is the number of repetitions of all changes.
const lossRounds = 2

// eventuallyAnswer waits until exactly the given servers answer.
func (s *stream) eventuallyAnswer(who []string) {
	s.t.Helper()
	serving.Eventually(s.t, patience, strings.Join(who, " and "), func() error {
		got := map[string]int{}
		for i := range 20 {
			answer, err := s.call("user", fmt.Sprint(i))
			if err != nil && !ofItsOwn(err) {
				s.t.Errorf("%s: %v", s.during.name, err)
			}
			if err != nil {
				return err
			}
			got[answer.GetServerId()]++
		}
		if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, who) {
			return fmt.Errorf("calls went to %v", got)
		}
		return nil
	})
}
