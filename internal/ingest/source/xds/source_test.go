package xds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	mcp "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	serviceEntries   = "networking.istio.io/v1/ServiceEntry"
	destinationRules = "networking.istio.io/v1/DestinationRule"
)

// wrapped returns an object in its wrapper.
func wrapped(t testing.TB, name, version string, spec proto.Message) *anypb.Any {
	t.Helper()
	body, err := anypb.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	any, err := anypb.New(&mcp.Resource{
		Metadata: &mcp.Metadata{Name: name, Version: version, CreateTime: timestamppb.New(time.Unix(1_700_000_000, 0)), Labels: map[string]string{"team": "a"}},
		Body:     body,
	})
	if err != nil {
		t.Fatal(err)
	}
	return any
}

func entry(hosts ...string) *networking.ServiceEntry {
	return &networking.ServiceEntry{
		Hosts: hosts, Resolution: networking.ServiceEntry_DNS,
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
	}
}

// reader replaces the pipeline: it accumulates the events of a source.
type reader struct {
	t        testing.TB
	source   *Source
	out      chan mesh.Batch
	objects  map[string]*config.Config
	problems map[string][]config.Problem
	events   []string // all events but for those of Problems, in order
	synced   bool
}

// start runs a source until the test ends, and returns a reader of its events.
func start(t testing.TB, address string, c *meshconfig.ConfigSource, o Options) *reader {
	t.Helper()
	if c == nil {
		c = new(meshconfig.ConfigSource)
	}
	c.Address = address
	if o.Backoff == 0 {
		o.Backoff, o.MaxBackoff = time.Millisecond, 20*time.Millisecond
	}
	s, err := New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{t: t, source: s, out: make(chan mesh.Batch), objects: map[string]*config.Config{}, problems: map[string][]config.Problem{}}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, r.out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	return r
}

// until takes batches in until the condition holds.
func (r *reader) until(what string, condition func() bool) {
	r.t.Helper()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case b := <-r.out:
			r.recordBatch(b)
		case <-deadline:
			r.t.Fatalf("timed out waiting until %s\nobjects %v\nproblems %v", what, slices.Sorted(maps.Keys(r.objects)), r.problems)
		}
	}
}

func (r *reader) recordBatch(b mesh.Batch) {
	for _, e := range b {
		switch {
		case e.Op == mesh.Synced:
			r.synced = true
			r.events = append(r.events, "synced")
		case e.Problems != nil && len(e.Problems.List) == 0:
			delete(r.problems, e.Problems.Scope)
		case e.Problems != nil:
			r.problems[e.Problems.Scope] = e.Problems.List
		default:
			key := e.Config.Key.String()
			r.events = append(r.events, e.Op.String()+" "+key)
			if e.Op == mesh.Delete {
				delete(r.objects, key)
			} else {
				r.objects[key] = e.Config
			}
		}
	}
}

func (r *reader) sync() {
	r.t.Helper()
	r.until("sync", func() bool { return r.synced })
}

// want waits for events, and compares them with the ones that arrived since its last call.
func (r *reader) want(events ...string) {
	r.t.Helper()
	r.until(fmt.Sprint(events), func() bool { return len(r.events) >= len(events) })
	if diff := cmp.Diff(events, r.events); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
	r.events = nil
}

// modes are the address parameters that select the protocol variants.
var modes = map[string]string{"sotw": "", "delta": "?mode=delta"}

func TestObjectsComeAndGo(t *testing.T) {
	for mode, parameter := range modes {
		t.Run(mode, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			t.Run("", func(t *testing.T) { comeAndGo(t, parameter) })
		})
	}
}

func comeAndGo(t *testing.T, parameter string) {
	s := newShop()
	s.setObject(serviceEntries, "ns/a", wrapped(t, "ns/a", "1", entry("a.example.com")))
	s.setObject(serviceEntries, "ns/b", wrapped(t, "ns/b", "1", entry("b.example.com")))
	at, _ := s.serve(t, "127.0.0.1:0")
	r := start(t, "xds://"+at+parameter, nil, Options{Node: Node{Namespace: "istio-system", PodName: "pilot-1", ClusterID: "c1"}})
	r.want("upsert ServiceEntry/ns/a", "upsert ServiceEntry/ns/b", "synced")

	a := r.objects["ServiceEntry/ns/a"]
	want := config.Meta{
		Key:    config.Key{Kind: api.ServiceEntry, Namespace: "ns", Name: "a"},
		Labels: map[string]string{"team": "a"}, Created: time.Unix(1_700_000_000, 0).UTC(), ResourceVersion: "1", Origin: "xds://" + at + parameter,
	}
	if diff := cmp.Diff(want, a.Meta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if !proto.Equal(config.Spec[*networking.ServiceEntry](a), entry("a.example.com")) {
		t.Errorf("spec %v", a.Spec)
	}

	s.setObject(serviceEntries, "ns/b", wrapped(t, "ns/b", "2", entry("b.example.com", "c.example.com")))
	r.want("upsert ServiceEntry/ns/b")
	// no difference but in the version
	s.setObject(serviceEntries, "ns/b", wrapped(t, "ns/b", "3", entry("b.example.com", "c.example.com")))
	s.setObject(serviceEntries, "ns/a", nil)
	r.want("delete ServiceEntry/ns/a")
	s.setObject(destinationRules, "ns/a", wrapped(t, "ns/a", "1", &networking.DestinationRule{Host: "a.example.com"}))
	r.want("upsert DestinationRule/ns/a")
	if len(r.problems) > 0 {
		t.Errorf("problems %v", r.problems)
	}
	serving.Until(t, 10*time.Second, "everything is acknowledged", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.acked[destinationRules] == fmt.Sprint(s.nonces)
	})
	if len(s.rejected) > 0 {
		t.Errorf("NACKs: %v", s.rejected)
	}
	checkOpening(t, s)
}

// checkOpening compares the first requests with those of Istio's own client.
func checkOpening(t *testing.T, s *shop) {
	t.Helper()
	want := []string{
		"networking.istio.io/v1/VirtualService", "networking.istio.io/v1/DestinationRule", "networking.istio.io/v1/Gateway",
		"networking.istio.io/v1/ServiceEntry", "networking.istio.io/v1/WorkloadEntry", "networking.istio.io/v1/WorkloadGroup",
		"networking.istio.io/v1/Sidecar", "networking.istio.io/v1alpha3/EnvoyFilter", "networking.istio.io/v1beta1/ProxyConfig",
		"security.istio.io/v1/AuthorizationPolicy", "security.istio.io/v1/PeerAuthentication", "security.istio.io/v1/RequestAuthentication",
		"telemetry.istio.io/v1/Telemetry", "extensions.istio.io/v1alpha1/WasmPlugin", "extensions.istio.io/v1alpha1/TrafficExtension",
	}
	if diff := cmp.Diff(want, s.opened); diff != "" {
		t.Errorf("requested types (-want +got):\n%s", diff)
	}
	if len(s.nodes) != 1 {
		t.Fatalf("%d requests with a node, want the first alone", len(s.nodes))
	}
	n := s.nodes[0]
	if n.Metadata.Fields["GENERATOR"].GetStringValue() != "api" || n.Metadata.Fields["CLUSTER_ID"].GetStringValue() != "c1" {
		t.Errorf("node metadata %v", n.Metadata)
	}
	if n.Id != "sidecar~127.0.0.1~pilot-1.istio-system~istio-system.svc.cluster.local" {
		t.Errorf("node id %q", n.Id)
	}
}

func TestReconnect(t *testing.T) {
	for mode, parameter := range modes {
		t.Run(mode, func(t *testing.T) {
			s := newShop()
			for _, name := range []string{"same", "other", "gone"} {
				s.setObject(serviceEntries, "ns/"+name, wrapped(t, "ns/"+name, "1", entry(name+".example.com")))
			}
			at, stop := s.serve(t, "127.0.0.1:0")
			r := start(t, "xds://"+at+parameter, nil, Options{})
			r.sync()
			r.events = nil

			stop()
			r.until("the loss is a Problem", func() bool { return len(r.problems["xds://"+at+parameter]) > 0 })
			p := r.problems["xds://"+at+parameter][0]
			if !strings.Contains(p.Reason, "stays in use") || p.Origin != "xds://"+at+parameter {
				t.Errorf("problem %v", p)
			}
			if len(r.events) > 0 || len(r.objects) != 3 {
				t.Errorf("events %v while the server is away", r.events)
			}
			if since, reason := r.source.Unreadable(); since.IsZero() || !strings.Contains(reason, "connection refused") {
				t.Errorf("unreadable since %v: %q", since, reason)
			}
			s.setObject(serviceEntries, "ns/gone", nil)
			s.setObject(serviceEntries, "ns/other", wrapped(t, "ns/other", "2", entry("new.example.com")))
			s.mu.Lock()
			s.sent = 0
			s.mu.Unlock()
			s.serve(t, at)
			r.want("upsert ServiceEntry/ns/other", "delete ServiceEntry/ns/gone")
			r.until("the Problem is resolved", func() bool { return len(r.problems) == 0 })
			if since, reason := r.source.Unreadable(); !since.IsZero() || reason != "" {
				t.Errorf("still unreadable since %v: %q", since, reason)
			}
			if mode != "delta" {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if diff := cmp.Diff(map[string]string{"ns/same": "1", "ns/other": "1", "ns/gone": "1"}, s.held[serviceEntries]); diff != "" {
				t.Errorf("initial_resource_versions (-want +got):\n%s", diff)
			}
			if s.sent != 1 {
				t.Errorf("%d resources were sent again, want the one that changed", s.sent)
			}
		})
	}
}

func TestServerThatDoesNotKnowDelta(t *testing.T) {
	s := newShop()
	s.noDelta = true
	s.setObject(serviceEntries, "ns/a", wrapped(t, "ns/a", "1", entry("a.example.com")))
	at, _ := s.serve(t, "127.0.0.1:0")
	r := start(t, "xds://"+at+"?mode=delta", nil, Options{})
	r.want("upsert ServiceEntry/ns/a", "synced")
	if len(r.problems) > 0 {
		t.Errorf("problems %v", r.problems)
	}
}

func TestServerWithoutAnswerForAType(t *testing.T) {
	s := newShop()
	s.mute = map[string]bool{destinationRules: true}
	at, _ := s.serve(t, "127.0.0.1:0")
	r := start(t, "xds://"+at, nil, Options{Patience: time.Millisecond})
	r.until("it is named", func() bool {
		list := r.problems["xds://"+at]
		return len(list) == 1 && strings.HasSuffix(list[0].Reason, "has not sent its state yet of "+destinationRules)
	})
	if r.synced {
		t.Error("in sync without an answer for " + destinationRules)
	}
}

func TestServerThatStartsLate(t *testing.T) {
	s := newShop()
	at, stop := s.serve(t, "127.0.0.1:0")
	stop()
	r := start(t, "xds://"+at, nil, Options{})
	r.until("a Problem", func() bool { return len(r.problems) == 1 })
	if reason := r.problems["xds://"+at][0].Reason; !strings.Contains(reason, "connection refused") {
		t.Errorf("reason %q", reason)
	}
	s.serve(t, at)
	r.sync()
	r.until("the Problem is resolved", func() bool { return len(r.problems) == 0 })
}

func TestJitter(t *testing.T) {
	s, err := New(&meshconfig.ConfigSource{Address: "xds://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for random, want := range map[float64]time.Duration{0: time.Second, 0.5: 1500 * time.Millisecond, 0.999: 1999 * time.Millisecond} {
		s.o.Random = func() float64 { return random }
		if got := s.addJitter(2 * time.Second); got != want {
			t.Errorf("2 s with jitter, at random %v: %v, want %v", random, got, want)
		}
	}
}
