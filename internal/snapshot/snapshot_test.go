package snapshot

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func object(t testing.TB, kind api.Kind, namespace, name string, age int, spec proto.Message) *config.Config {
	t.Helper()
	c, err := config.New(config.Meta{
		Key:     config.Key{Kind: kind, Namespace: namespace, Name: name},
		Created: time.Unix(int64(1_000-age), 0),
	}, spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func upsert(c *config.Config) mesh.Event { return mesh.Event{Config: c} }

func service(namespace, name string, ports ...uint32) mesh.Service {
	s := mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: namespace, Host: mesh.Hostname(name + "." + namespace + ".svc.cluster.local")},
		Provider:   mesh.Kubernetes, Cluster: "Kubernetes", Name: name, Resolution: mesh.Static,
		From: config.Key{Kind: api.Service, Namespace: namespace, Name: name},
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, mesh.Port{Name: fmt.Sprintf("http-%d", p), Number: p, Protocol: mesh.HTTP, Target: p})
	}
	return s
}

func shard(svc mesh.Service, slice string, addresses ...string) *mesh.Shard {
	s := mesh.Shard{Service: svc.ServiceKey, Key: mesh.ShardKey{
		Provider: svc.Provider, Cluster: svc.Cluster,
		Object: config.Key{Kind: api.EndpointSlice, Namespace: svc.Namespace, Name: slice},
	}}
	for _, a := range addresses {
		for _, p := range svc.Ports {
			s.Endpoints = append(s.Endpoints, &mesh.Endpoint{Address: a, Port: p.Target, ServicePort: p.Name})
		}
	}
	return s.Sealed()
}

func TestEndpointsWaitForTheirService(t *testing.T) {
	b := NewBuilder(Options{Cluster: "Kubernetes"})
	web := service("shop", "web", 80)
	s, d := b.Apply(mesh.Event{Shard: shard(web, "web-1", "10.0.0.1")})
	if !d.Empty() || len(s.Endpoints(web.ServiceKey).Endpoints) != 0 {
		t.Fatalf("endpoints of an unknown service are in use: %v, delta %v", s.Endpoints(web.ServiceKey), d)
	}
	s, d = b.Apply(mesh.Event{Service: web.Sealed()})
	if n := len(s.Endpoints(web.ServiceKey).Endpoints); n != 1 {
		t.Fatalf("%d endpoints once the service is known, want 1", n)
	}
	if _, ok := d.Endpoints[web.ServiceKey]; !ok {
		t.Errorf("the delta does not name the endpoints: %v", d)
	}
}

func TestOneSliceOfTwoIsDeleted(t *testing.T) {
	b := NewBuilder(Options{})
	web := service("shop", "web", 80)
	b.Apply(mesh.Event{Service: web.Sealed()},
		mesh.Event{Shard: shard(web, "web-1", "10.0.0.1")}, mesh.Event{Shard: shard(web, "web-2", "10.0.0.2")})
	s, d := b.Apply(mesh.Event{Op: mesh.Delete, Shard: shard(web, "web-1")})
	if got := s.Endpoints(web.ServiceKey).Endpoints; len(got) != 1 || got[0].Address != "10.0.0.2" {
		t.Errorf("left are %v, want 10.0.0.2", got)
	}
	if !d.EndpointsOnly() {
		t.Errorf("delta %v is more than endpoints", d)
	}
}

func TestSameContentChangesNothing(t *testing.T) {
	b := NewBuilder(Options{})
	web := service("shop", "web", 80)
	vs := object(t, api.VirtualService, "shop", "web", 1, &networking.VirtualService{Hosts: []string{"web"}})
	before, _ := b.Apply(mesh.Event{Service: web.Sealed()}, mesh.Event{Shard: shard(web, "a", "10.0.0.1")}, upsert(vs))

	again := *vs
	again.ResourceVersion = "99"
	after, d := b.Apply(mesh.Event{Service: web.Sealed()}, mesh.Event{Shard: shard(web, "a", "10.0.0.1")}, upsert(&again))
	if !d.Empty() || after != before {
		t.Errorf("a resync made a new snapshot, delta %v", d)
	}
}

// TestNewGeneration replaces an object by a generation with the same effect: clients that wait for
// the generation must see it, and proxies must not be pushed anything. The same holds for an object
// that is moved within its file.
func TestNewGeneration(t *testing.T) {
	b := NewBuilder(Options{})
	vs := object(t, api.VirtualService, "shop", "web", 1, &networking.VirtualService{Hosts: []string{"web"}})
	b.Apply(upsert(vs))
	again := *vs
	again.Generation = 7
	after, d := b.Apply(upsert(&again))
	if !d.Empty() || after.Config(vs.Key).Generation != 7 || after.Configs(api.VirtualService)[0].Generation != 7 {
		t.Errorf("the snapshot has generation %d, delta %v; want 7 and an empty one", after.Config(vs.Key).Generation, d)
	}
	moved := again
	moved.Origin = "web.yaml#2:14"
	after, d = b.Apply(upsert(&moved))
	if !d.Empty() || after.Config(vs.Key).Origin != moved.Origin {
		t.Errorf("the object was moved to %s, and the snapshot has the origin %q, delta %v",
			moved.Origin, after.Config(vs.Key).Origin, d)
	}
}

func TestRowsKeepTheirIdentity(t *testing.T) {
	b := NewBuilder(Options{})
	rule := func(ns, name string) *config.Config {
		return object(t, api.DestinationRule, ns, name, 0, &networking.DestinationRule{Host: name})
	}
	vs := object(t, api.VirtualService, "shop", "web", 1, &networking.VirtualService{Hosts: []string{"web"}})
	before, _ := b.Apply(upsert(rule("shop", "web")), upsert(rule("shop", "cart")), upsert(vs))
	after, _ := b.Apply(upsert(object(t, api.DestinationRule, "shop", "cart", 0, &networking.DestinationRule{
		Host: "cart", Subsets: []*networking.Subset{{Name: "v1"}},
	})))
	web := service("shop", "web").ServiceKey
	cart := service("shop", "cart").ServiceKey
	if before.DestinationRule("shop", web) != after.DestinationRule("shop", web) {
		t.Error("an untouched rule's row changed")
	}
	if before.DestinationRule("shop", cart) == after.DestinationRule("shop", cart) {
		t.Error("an edited rule's row did not change")
	}
	if before.VirtualServices()[0] != after.VirtualServices()[0] {
		t.Error("an untouched VirtualService's row changed")
	}
}

func TestDestinationRuleLookup(t *testing.T) {
	rule := func(ns, name, host string, exportTo ...string) mesh.Event {
		return upsert(object(t, api.DestinationRule, ns, name, 0, &networking.DestinationRule{Host: host, ExportTo: exportTo}))
	}
	const host = "reviews.prod.svc.cluster.local"
	tests := []struct {
		name   string
		rules  []mesh.Event
		client string
		want   string // name of the rule
	}{
		{"none", nil, "web", ""},
		{"the client's namespace first", []mesh.Event{rule("web", "a", host), rule("prod", "b", "reviews"), rule("istio-system", "c", host)}, "web", "a"},
		{"then the service's", []mesh.Event{rule("prod", "b", "reviews"), rule("istio-system", "c", host)}, "web", "b"},
		{"then the root's", []mesh.Event{rule("istio-system", "c", host)}, "web", "c"},
		{"a third namespace's never", []mesh.Event{rule("other", "d", host)}, "web", ""},
		{"private ones of the service's are skipped", []mesh.Event{rule("prod", "b", "reviews", "."), rule("istio-system", "c", host)}, "web", "c"},
		{"a private rule applies in its own namespace", []mesh.Event{rule("prod", "b", "reviews", ".")}, "prod", "b"},
		{"exported to the client", []mesh.Event{rule("prod", "b", "reviews", "web")}, "web", "b"},
		{"exact before wildcard", []mesh.Event{rule("web", "w", "*.prod.svc.cluster.local"), rule("web", "x", host)}, "web", "x"},
		{"long wildcard before short", []mesh.Event{rule("web", "s", "*.local"), rule("web", "l", "*.prod.svc.cluster.local")}, "web", "l"},
		{"the client's wildcard before the service's exact", []mesh.Event{rule("web", "w", "*.local"), rule("prod", "b", "reviews")}, "web", "w"},
		{"a root client takes the service's first", []mesh.Event{rule("istio-system", "c", host), rule("prod", "b", "reviews")}, "istio-system", "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := NewBuilder(Options{}).Apply(tt.rules...)
			got := ""
			if r := s.DestinationRule(tt.client, mesh.ServiceKey{Namespace: "prod", Host: host}); r != nil {
				got = r.From[0].Name
			}
			if got != tt.want {
				t.Errorf("rule %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRulesOfOneHostMerge(t *testing.T) {
	policy := &networking.TrafficPolicy{OutlierDetection: &networking.OutlierDetection{}}
	s, _ := NewBuilder(Options{}).Apply(
		upsert(object(t, api.DestinationRule, "shop", "young", 1, &networking.DestinationRule{
			Host: "web", TrafficPolicy: &networking.TrafficPolicy{}, Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"a": "young"}}, {Name: "v2"}},
		})),
		upsert(object(t, api.DestinationRule, "shop", "old", 9, &networking.DestinationRule{
			Host: "web", TrafficPolicy: policy, Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"a": "old"}}},
		})))
	r := s.DestinationRule("shop", service("shop", "web").ServiceKey)
	if r.Spec.TrafficPolicy.OutlierDetection == nil {
		t.Error("the policy is not the older rule's")
	}
	var subsets []string
	for _, x := range r.Spec.Subsets {
		subsets = append(subsets, x.Name+x.Labels["a"])
	}
	if diff := cmp.Diff([]string{"v1old", "v2"}, subsets); diff != "" {
		t.Errorf("subsets (-want +got):\n%s", diff)
	}
	if len(r.From) != 2 {
		t.Errorf("made from %v, want both", r.From)
	}
}

func TestSelectorJoinsWorkloads(t *testing.T) {
	b := NewBuilder(Options{})
	entry := mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: "shop", Host: "db.example.com"}, Provider: mesh.External, Resolution: mesh.Static,
		Ports:    []mesh.Port{{Name: "tcp", Number: 5432, Protocol: mesh.TCP, Target: 15432}},
		Selector: map[string]string{"app": "db"}, SelectsPods: true, SelectsWorkloadEntries: true,
	}
	vm := mesh.Workload{Provider: mesh.External, Namespace: "shop", Name: "vm", Addresses: []string{"10.9.0.1"}, Labels: map[string]string{"app": "db"},
		Ports: map[string]uint32{"tcp": 6000}, Ready: true}
	pod := mesh.Workload{Provider: mesh.Kubernetes, Namespace: "shop", Name: "pod", Addresses: []string{"10.9.0.2"}, Labels: map[string]string{"app": "db"}}
	s, _ := b.Apply(mesh.Event{Service: entry.Sealed()}, mesh.Event{Workload: vm.Sealed()}, mesh.Event{Workload: pod.Sealed()})
	if got := hostPorts(s, entry.ServiceKey); !slices.Equal(got, []string{"10.9.0.1:6000"}) {
		t.Errorf("endpoints %v: the workload's own port, and no pod that is not ready", got)
	}
	pod.Ready = true
	s, d := b.Apply(mesh.Event{Workload: pod.Sealed()})
	if got := hostPorts(s, entry.ServiceKey); !slices.Equal(got, []string{"10.9.0.1:6000", "10.9.0.2:15432"}) {
		t.Errorf("endpoints %v after the pod became ready", got)
	}
	if _, ok := d.Workloads[netip.MustParseAddr("10.9.0.2")]; !ok || !d.EndpointsOnly() {
		t.Errorf("delta %v", d)
	}
	pod.Labels = map[string]string{"app": "web"}
	s, _ = b.Apply(mesh.Event{Workload: pod.Sealed()})
	if got := hostPorts(s, entry.ServiceKey); !slices.Equal(got, []string{"10.9.0.1:6000"}) {
		t.Errorf("endpoints %v after the pod was labelled otherwise", got)
	}
	if at := s.Address(netip.MustParseAddr("10.9.0.2")); at == nil || len(at.Workloads) != 1 || len(at.Targets) != 0 {
		t.Errorf("at the pod's address: %+v", at)
	}
}

func hostPorts(s *Snapshot, k mesh.ServiceKey) []string {
	var list []string
	for _, e := range s.Endpoints(k).Endpoints {
		list = append(list, e.HostPort())
	}
	return list
}

func TestServicesOfTwoClusters(t *testing.T) {
	near, far := service("shop", "web", 80), service("shop", "web", 80, 81)
	near.Addresses, far.Addresses, far.Cluster = []string{"10.96.0.1"}, []string{"10.97.0.1"}, "far"
	b := NewBuilder(Options{Cluster: "Kubernetes"})
	s, _ := b.Apply(mesh.Event{Service: far.Sealed()}, mesh.Event{Service: near.Sealed()})
	got := s.Service(near.ServiceKey)
	if len(got.Ports) != 1 || !slices.Equal(got.Addresses, []string{"10.96.0.1"}) {
		t.Errorf("joined: ports %v, addresses %v; want the local cluster's", got.Ports, got.Addresses)
	}
	s, _ = b.Apply(mesh.Event{Op: mesh.Delete, Service: near.Sealed()})
	if got := s.Service(near.ServiceKey); got == nil || got.Cluster != "far" {
		t.Errorf("after the local one was deleted: %+v", got)
	}
}

// TestOrderOfArrivalDoesNotMatter applies the same facts in random orders and batches.
func TestOrderOfArrivalDoesNotMatter(t *testing.T) {
	var events []mesh.Event
	for i := range 4 {
		svc := service("ns", fmt.Sprintf("s%d", i), 80)
		events = append(events, mesh.Event{Service: svc.Sealed()}, mesh.Event{Shard: shard(svc, "a", fmt.Sprintf("10.0.0.%d", i))},
			mesh.Event{Shard: shard(svc, "b", "10.0.1.1")},
			upsert(object(t, api.DestinationRule, "ns", fmt.Sprintf("r%d", i), i, &networking.DestinationRule{Host: fmt.Sprintf("s%d", i%2)})),
			upsert(object(t, api.VirtualService, "ns", fmt.Sprintf("v%d", i), i%2, &networking.VirtualService{Hosts: []string{"s0"}})))
	}
	want := describe(events, t)
	rapid.Check(t, func(rt *rapid.T) {
		shuffled := slices.Clone(events)
		seed := rapid.Uint64().Draw(rt, "seed")
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b := NewBuilder(Options{})
		for len(shuffled) > 0 {
			n := rapid.IntRange(1, len(shuffled)).Draw(rt, "batch")
			b.Apply(shuffled[:n]...)
			shuffled = shuffled[n:]
		}
		if diff := cmp.Diff(want, dump(b.Current())); diff != "" {
			rt.Fatalf("another snapshot (-want +got):\n%s", diff)
		}
	})
}

func describe(events []mesh.Event, t testing.TB) []string {
	t.Helper()
	b := NewBuilder(Options{})
	b.Apply(events...)
	return dump(b.Current())
}

func dump(s *Snapshot) []string {
	var out []string
	for _, svc := range s.Services() {
		out = append(out, fmt.Sprint(svc.Host, svc.Hash, hostPorts(s, svc.ServiceKey)))
		if r := s.DestinationRule("ns", svc.ServiceKey); r != nil {
			out = append(out, fmt.Sprint(r.From, r.Spec.String()))
		}
	}
	for _, v := range s.VirtualServices() {
		out = append(out, v.Config.Key.String())
	}
	for i := range 4 {
		out = append(out, fmt.Sprint(s.Address(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))))
	}
	return out
}

func BenchmarkApplyEndpoints(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n, " services"), func(b *testing.B) {
			builder := NewBuilder(Options{})
			var services []mesh.Service
			var events []mesh.Event
			for i := range n {
				svc := service(fmt.Sprintf("ns-%d", i%20), fmt.Sprintf("s%d", i), 80)
				services = append(services, svc)
				events = append(events, mesh.Event{Service: svc.Sealed()}, mesh.Event{Shard: shard(svc, "a", fmt.Sprintf("10.%d.%d.1", i/256, i%256))})
			}
			builder.Apply(events...)
			b.ReportAllocs()
			for i := range b.N {
				builder.Apply(mesh.Event{Shard: shard(services[i%n], "a", fmt.Sprintf("10.200.%d.%d", i/256%256, i%256))})
			}
		})
	}
}

// TestEndpointsInsideClusters: where endpoints are part of clusters or listeners, a change of them
// is more than one of endpoints.
func TestEndpointsInsideClusters(t *testing.T) {
	for resolution, only := range map[mesh.Resolution]bool{
		mesh.Static: true, mesh.DNS: false, mesh.DNSRoundRobin: false, mesh.Passthrough: false,
	} {
		b := NewBuilder(Options{})
		svc := service("shop", "db", 5432)
		svc.Resolution = resolution
		b.Apply(mesh.Event{Service: svc.Sealed()}, mesh.Event{Shard: shard(svc, "a", "10.0.0.1")})
		_, d := b.Apply(mesh.Event{Shard: shard(svc, "a", "10.0.0.2")})
		if d.Empty() || d.EndpointsOnly() != only {
			t.Errorf("%s: delta %+v, want endpoints only: %v", resolution, d, only)
		}
	}
}
