package serviceentry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const cluster mesh.ClusterID = "c1"

func TestService(t *testing.T) {
	state := converted(t, object(t, staticEntry))
	if len(state.Services) != 2 {
		t.Fatalf("%d services, want one for each host", len(state.Services))
	}
	for _, host := range []mesh.Hostname{"db.example.com", "replica.example.com"} {
		want := mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: "default", Host: host},
			Provider:   mesh.External, Cluster: cluster, Name: "db",
			Addresses: []string{"240.0.0.1", "240.1.0.0", "240.2.0.0/16"},
			Ports: []mesh.Port{
				{Name: "tcp", Number: 3306, Protocol: mesh.TCP, Target: 13306},
				{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 80},
			},
			Resolution: mesh.Static, ExportTo: []string{".", "other"}, Accounts: []string{"spiffe://td/ns/default/sa/db"},
			Labels: map[string]string{"team": "data"}, Created: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC),
			From: config.Key{Kind: api.ServiceEntry, Namespace: "default", Name: "db"},
		}.Sealed()
		if diff := cmp.Diff(want, service(t, state, host)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestListedEndpoints(t *testing.T) {
	first := mesh.Endpoint{
		Address: "192.0.2.1", Account: "spiffe://td/ns/default/sa/db", Namespace: "default",
		Labels: map[string]string{
			"version": "v1", "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1", "topology.istio.io/subzone": "r1",
			"topology.istio.io/network": "net-1", "topology.istio.io/cluster": "c1",
		},
		Locality: mesh.Locality{Region: "eu", Zone: "eu-1", SubZone: "r1"}, Network: "net-1", Cluster: cluster, Weight: 5, TLS: true,
	}
	socket := mesh.Endpoint{Address: "unix:///var/run/db.sock", Namespace: "default", Cluster: cluster, Labels: map[string]string{"topology.istio.io/cluster": "c1"}}
	at := func(e mesh.Endpoint, name string, port uint32) *mesh.Endpoint {
		e.ServicePort, e.Port = name, port
		return &e
	}
	want := []*mesh.Endpoint{at(first, "tcp", 13306), at(first, "http", 8080), at(socket, "tcp", 0), at(socket, "http", 0)}
	state := converted(t, object(t, staticEntry))
	for _, host := range []mesh.Hostname{"db.example.com", "replica.example.com"} {
		if diff := cmp.Diff(want, endpoints(state, host)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", host, diff)
		}
	}
}

// A service that is resolved and lists no endpoints is its own endpoint.
func TestHostIsEndpoint(t *testing.T) {
	for resolution, want := range map[string]mesh.Resolution{"DNS": mesh.DNS, "DNS_ROUND_ROBIN": mesh.DNSRoundRobin} {
		state := converted(t, object(t, edit(t, dnsEntry, "resolution: DNS", "resolution: "+resolution)))
		if s := service(t, state, "www.example.com"); s.Resolution != want || !s.MeshExternal {
			t.Errorf("resolution %q external %t", s.Resolution, s.MeshExternal)
		}
		wanted := []*mesh.Endpoint{
			{Address: "api.example.com", Port: 443, ServicePort: "https", Namespace: "default", Cluster: cluster},
			{Address: "api.example.com", Port: 8080, ServicePort: "http", Namespace: "default", Cluster: cluster},
		}
		if diff := cmp.Diff(wanted, endpoints(state, "api.example.com")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if got := problems(state); len(got) != 0 {
			t.Errorf("problems %q", got)
		}
	}
	listed := converted(t, object(t, dnsEntry+"\n  endpoints: [{address: a.example.net}, {address: 192.0.2.1}]"))
	if got := endpoints(listed, "www.example.com"); len(got) != 4 || got[0].Address != "a.example.net" || got[2].Address != "192.0.2.1" {
		t.Errorf("listed endpoints of a DNS service: %+v", got)
	}
	selecting := converted(t, object(t, dnsEntry+"\n  workloadSelector: {labels: {a: b}}"))
	if len(selecting.Shards) != 0 {
		t.Errorf("a selecting DNS service has endpoints of its own")
	}
}

func TestPassthroughHasNoEndpoints(t *testing.T) {
	state := converted(t, object(t, passthroughEntry))
	if s := service(t, state, "*.example.org"); s.Resolution != mesh.Passthrough || len(state.Shards) != 0 || len(state.Problems) != 0 {
		t.Errorf("resolution %q, %d shards, problems %v", s.Resolution, len(state.Shards), state.Problems)
	}
}

func TestSelector(t *testing.T) {
	s := service(t, converted(t, object(t, selectingEntry)), "vms.example.com")
	if !cmp.Equal(s.Selector, map[string]string{"app": "vm"}) || !s.SelectsPods || !s.SelectsWorkloadEntries {
		t.Errorf("selector %v, pods %t, workload entries %t", s.Selector, s.SelectsPods, s.SelectsWorkloadEntries)
	}
	if s := service(t, converted(t, object(t, staticEntry)), "db.example.com"); s.Selector != nil || s.SelectsPods || s.SelectsWorkloadEntries {
		t.Errorf("an entry without a selector selects: %+v", s)
	}
}

// TestPodsAreNotSelected tests a ServiceEntry without SelectPods: it selects WorkloadEntries only.
func TestPodsAreNotSelected(t *testing.T) {
	state := conform.Fold(serviceentry.New(serviceentry.Options{}).Convert(mesh.Batch{{Config: object(t, selectingEntry)}}))
	if s := service(t, state, "vms.example.com"); s.SelectsPods || !s.SelectsWorkloadEntries {
		t.Errorf("pods %t, workload entries %t", s.SelectsPods, s.SelectsWorkloadEntries)
	}
}

// The labels of sessions and of what drains may have other names.
func TestNamesOfLabels(t *testing.T) {
	entry := object(t, `
kind: ServiceEntry
metadata: {name: db, namespace: default, labels: {istio.io/persistent-session: a, example.com/session: "b:/c", istio.io/persistent-session-header: d, example.com/header: e}}
spec:
  hosts: [db.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http}]
  endpoints: [{address: 192.0.2.1, labels: {istio.io/draining: "true"}}, {address: 192.0.2.2, labels: {example.com/leaving: "1"}}]`)
	for name, test := range map[string]struct {
		labels   mesh.LabelNames
		session  mesh.Session
		draining string
	}{
		"Istio's":   {mesh.LabelNames{}, mesh.Session{Cookie: "a", Path: "/"}, "192.0.2.1"},
		"others":    {mesh.LabelNames{Session: "example.com/session", SessionHeader: "example.com/header", Draining: "example.com/leaving"}, mesh.Session{Cookie: "b", Path: "/c"}, "192.0.2.2"},
		"no cookie": {mesh.LabelNames{Session: mesh.NoLabel}, mesh.Session{Header: "d"}, "192.0.2.1"},
		"a header":  {mesh.LabelNames{Session: mesh.NoLabel, SessionHeader: "example.com/header"}, mesh.Session{Header: "e"}, "192.0.2.1"},
		"none":      {mesh.LabelNames{Session: mesh.NoLabel, SessionHeader: mesh.NoLabel, Draining: mesh.NoLabel}, mesh.Session{}, ""},
	} {
		state := conform.NewState()
		if err := state.Apply(serviceentry.New(serviceentry.Options{Labels: test.labels}).Convert(upserts(entry))); err != nil {
			t.Fatal(err)
		}
		if s := service(t, state, "db.example.com"); s.Session != test.session {
			t.Errorf("%s: session %+v", name, s.Session)
		}
		list := endpoints(state, "db.example.com")
		for _, e := range list {
			if drains := e.Health == mesh.Draining; drains != (e.Address == test.draining) {
				t.Errorf("%s: %s drains: %t", name, e.Address, drains)
			}
		}
		if len(list) != 2 {
			t.Errorf("%s: %d endpoints", name, len(list))
		}
	}
}

// A workload, or an endpoint, that is labelled as draining gets no new connections.
func TestDraining(t *testing.T) {
	w := converted(t, object(t, "kind: WorkloadEntry\nmetadata: {name: w, namespace: default, labels: {istio.io/draining: \"true\"}}\nspec: {address: 192.0.2.1}"))
	for _, w := range w.Workloads {
		if w.Health != mesh.Draining {
			t.Errorf("health of the workload %q", w.Health)
		}
	}
	s := converted(t, object(t, `
kind: ServiceEntry
metadata: {name: db, namespace: default}
spec:
  hosts: [db.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http}]
  endpoints: [{address: 192.0.2.1, labels: {istio.io/draining: "true"}}]`))
	for _, shard := range s.Shards {
		if shard.Endpoints[0].Health != mesh.Draining {
			t.Errorf("health of the endpoint %q", shard.Endpoints[0].Health)
		}
	}
	if len(w.Workloads) != 1 || len(s.Shards) != 1 {
		t.Errorf("%d workloads, %d shards", len(w.Workloads), len(s.Shards))
	}
}

func TestWorkload(t *testing.T) {
	state := converted(t, object(t, workloadEntry))
	want := mesh.Workload{
		Provider: mesh.External, Cluster: cluster, Namespace: "default", Name: "vm-1", Owner: "vm-1", Addresses: []string{"192.0.2.7"},
		Ports: map[string]uint32{"http": 8080},
		Labels: map[string]string{
			"app": "vm", "version": "v1", "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-2",
			"topology.istio.io/network": "net-2", "topology.istio.io/cluster": "c1",
		},
		Account: "spiffe://td/ns/default/sa/vm", Locality: mesh.Locality{Region: "eu", Zone: "eu-2"}, Network: "net-2", Weight: 3, TLS: true, Ready: true,
		From: config.Key{Kind: api.WorkloadEntry, Namespace: "default", Name: "vm-1"},
	}.Sealed()
	for _, got := range state.Workloads {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if len(state.Workloads) != 1 {
		t.Errorf("%d workloads", len(state.Workloads))
	}
}

// Labels apply where no field is set.
func TestWorkloadLabels(t *testing.T) {
	for _, c := range []struct {
		name, labels, sa string
		tls              bool
		locality         mesh.Locality
		network          mesh.Network
	}{
		{name: "nothing", labels: "{}"},
		{name: "identity", labels: "{}", sa: "x", tls: true},
		{name: "mutual TLS", labels: "{security.istio.io/tlsMode: istio}", tls: true},
		{name: "no mutual TLS", labels: "{security.istio.io/tlsMode: disabled}", sa: "x"},
		{name: "locality", labels: "{istio-locality: eu.eu-1.r1}", locality: mesh.Locality{Region: "eu", Zone: "eu-1", SubZone: "r1"}},
		{name: "both locality labels", labels: "{istio-locality: old, topology.istio.io/locality: eu/eu-1}", locality: mesh.Locality{Region: "eu", Zone: "eu-1"}},
		{name: "network", labels: "{topology.istio.io/network: net-9}", network: "net-9"},
	} {
		text := "kind: WorkloadEntry\nmetadata: {name: w, namespace: default}\nspec: {address: 192.0.2.1, labels: " + c.labels + ", serviceAccount: '" + c.sa + "'}"
		for _, w := range converted(t, object(t, text)).Workloads {
			if w.TLS != c.tls || w.Locality != c.locality || w.Network != c.network {
				t.Errorf("%s: TLS %t, locality %v, network %q", c.name, w.TLS, w.Locality, w.Network)
			}
		}
	}
}

// TestProblems is not used as it was written is named, and the rest is used.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		name   string
		object string
		want   []string
	}{
		{"dynamic DNS", edit(t, passthroughEntry, "NONE", "DYNAMIC_DNS"), nil},
		{"dynamic DNS of one host", edit(t, passthroughEntry, "NONE", "DYNAMIC_DNS", `["*.example.org"]`, `["*.example.org", a.b]`), []string{`error spec.hosts[1]: "a.b" is not a wildcard`}},
		{"dynamic DNS of bytes", edit(t, passthroughEntry, "NONE", "DYNAMIC_DNS", "protocol: TLS", "protocol: TCP"), []string{`error spec.ports[0].protocol: "TCP" does not identify the requested host`}},
		{"endpoints of dynamic DNS", edit(t, passthroughEntry, "NONE", "DYNAMIC_DNS") + "\n  endpoints: [{address: 192.0.2.1}]", []string{"error spec.endpoints: are not used with resolution DYNAMIC_DNS"}},
		{"wildcard without endpoints", edit(t, dnsEntry, "www.example.com", `"*.example.com"`), []string{`error spec.resolution: "*.example.com" cannot be resolved`}},
		{"name in a static entry", edit(t, staticEntry, "192.0.2.1", "a.b"), []string{`error spec.endpoints[0].address: "a.b" is not an IP address`}},
		{"socket in a DNS entry", dnsEntry + "\n  endpoints: [{address: 'unix:///s'}]", []string{"error spec.endpoints[0].address: a socket needs resolution STATIC"}},
		{"wildcard endpoint", dnsEntry + "\n  endpoints: [{address: '*.a'}]", []string{`error spec.endpoints[0].address: "*.a" cannot be resolved`}},
		{"network without an address", dnsEntry + "\n  endpoints: [{network: net-9}]", []string{`error spec.endpoints[0].address: is missing: the gateways of network "net-9"`}},
		{"neither", edit(t, staticEntry, "address: 192.0.2.1", "address: ''", "network: net-1", "network: ''"), []string{"error spec.endpoints[0].address: is missing, and so is the network"}},
		{"endpoints of NONE", passthroughEntry + "\n  endpoints: [{address: 192.0.2.1}]", []string{"error spec.endpoints: are not used with resolution NONE"}},
		{"endpoints and selector", selectingEntry + "\n  endpoints: [{address: 192.0.2.1}]", []string{"error spec.endpoints: cannot be used together with workloadSelector"}},
		{"empty selector", edit(t, selectingEntry, "{labels: {app: vm}}", "{}"), nil},
		{"hosts", edit(t, passthroughEntry, `["*.example.org"]`, `["*", a.b, A.b]`), []string{`error spec.hosts[0]: "*" is no host`, `warning spec.hosts[2]: "A.b" is listed twice`}},
		{"no host", edit(t, passthroughEntry, `["*.example.org"]`, `[]`), []string{"error spec.hosts: no host"}},
		{"ports", edit(t, passthroughEntry, "[{name: https, number: 443, protocol: TLS}]",
			"[{name: a, number: 0}, {name: b, number: 1}, {name: c, number: 1}, {name: d, number: 2, targetPort: 70000}, {name: e, number: 3, protocol: SPDY}]"),
			[]string{"error spec.ports[0].number: 0 is", "error spec.ports[2].number: 1 is there twice", "error spec.ports[3].targetPort: 70000", `warning spec.ports[4].protocol: "SPDY" is unknown`}},
		{"endpoint ports", edit(t, staticEntry, "{http: 8080}", "{http: 80800, b: 0}"), []string{"error spec.endpoints[0].ports[b]: 0 is", "error spec.endpoints[0].ports[http]: 80800 is"}},
		{"allocation", edit(t, selectingEntry, "HTTP", "TCP"), nil},
		{"allocation neither", edit(t, dnsEntry, "name: web", "name: web, labels: {networking.istio.io/enable-autoallocate-ip: 'yes'}"),
			[]string{`warning metadata.labels[networking.istio.io/enable-autoallocate-ip]: "yes" is neither true nor false`}},
		{"allocation requested for a wildcard host", edit(t, passthroughEntry, "name: wild", "name: wild, labels: {networking.istio.io/enable-autoallocate-ip: 'true'}"),
			[]string{"warning metadata.labels[networking.istio.io/enable-autoallocate-ip]: has no effect"}},
		{"allocation not wanted", edit(t, selectingEntry, "HTTP", "TCP", "name: vms", "name: vms, labels: {networking.istio.io/enable-autoallocate-ip: 'false'}"), nil},
		{"distance", edit(t, dnsEntry, "name: web", "name: web, annotations: {networking.istio.io/traffic-distribution: Far}"),
			[]string{`warning metadata.annotations[networking.istio.io/traffic-distribution]: "Far" is none of`}},
		{"strategy", edit(t, dnsEntry, "name: web", "name: web, annotations: {istio.io/connect-strategy: RACE}"),
			[]string{`warning metadata.annotations[istio.io/connect-strategy]: "RACE" is not RACE_FIRST_TCP_CONNECT`}},
		{"workload without an address", edit(t, workloadEntry, "address: 192.0.2.7", "address: ''", "network: net-2", "network: ''"), []string{"error spec.address: is missing"}},
		{"workload behind a gateway", edit(t, workloadEntry, "address: 192.0.2.7", "address: ''"), nil},
		{"two values of a label", edit(t, workloadEntry, "name: vm-1", "name: vm-1, labels: {app: other}"), []string{`warning spec.labels[app]: "vm" is not used: the object's own label is "other"`}},
	} {
		got := problems(converted(t, object(t, c.object)))
		ok := len(got) == len(c.want)
		for i := range c.want {
			ok = ok && strings.HasPrefix(got[i], c.want[i])
		}
		if !ok {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestTrafficDistribution(t *testing.T) {
	c := serviceentry.New(serviceentry.Options{})
	namespace := object(t, "kind: Namespace\nmetadata: {name: default, annotations: {networking.istio.io/traffic-distribution: PreferClose}}")
	annotated := edit(t, passthroughEntry, "name: wild", "name: wild, annotations: {networking.istio.io/traffic-distribution: PreferSameNode}")
	state := conform.NewState()
	for i, step := range []struct {
		event mesh.Event
		want  string
	}{
		{mesh.Event{Config: object(t, passthroughEntry)}, ""},
		{mesh.Event{Config: namespace}, "PreferSameZone"},
		{mesh.Event{Config: object(t, annotated)}, "PreferSameNode"},
		{mesh.Event{Config: object(t, edit(t, annotated, "PreferSameNode", "any"))}, ""},
		{mesh.Event{Config: object(t, passthroughEntry)}, "PreferSameZone"},
		{mesh.Event{Op: mesh.Delete, Config: namespace}, ""},
	} {
		if err := state.Apply(c.Convert(mesh.Batch{step.event})); err != nil {
			t.Fatal(err)
		}
		if got := service(t, state, "*.example.org").TrafficDistribution; got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestTrustDomain(t *testing.T) {
	c := serviceentry.New(serviceentry.Options{TrustDomain: "td"})
	state := conform.Fold(c.Convert(upserts(object(t, staticEntry), object(t, workloadEntry))))
	settings := mesh.Batch{{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{TrustDomain: "td2"}}}}
	if err := state.Apply(c.Convert(settings)); err != nil {
		t.Fatal(err)
	}
	if got := endpoints(state, "db.example.com")[0].Account; got != "spiffe://td2/ns/default/sa/db" {
		t.Errorf("endpoint: %q", got)
	}
	for _, w := range state.Workloads {
		if w.Account != "spiffe://td2/ns/default/sa/vm" {
			t.Errorf("workload: %q", w.Account)
		}
	}
	if said := c.Convert(settings); len(said) != 1 {
		t.Errorf("settings without a change emit %d events, want only the settings event", len(said))
	}
}

// TestLabelProblemsAreSorted: the Problems of a WorkloadEntry with several unused labels have the
// same order each time, so an update of another field does not send them again.
func TestLabelProblemsAreSorted(t *testing.T) {
	entry := object(t, `
kind: WorkloadEntry
metadata: {name: vm, namespace: default, labels: {a: object, b: object, c: object, d: object, e: object, f: object}}
spec: {address: 192.0.2.1, labels: {a: spec, b: spec, c: spec, d: spec, e: spec, f: spec}}`)
	if list := problems(converted(t, entry)); len(list) != 6 || !slices.IsSorted(list) {
		t.Errorf("the Problems are %q", list)
	}
	c := serviceentry.New(serviceentry.Options{})
	c.Convert(upserts(entry))
	changed := withSpec(t, entry, func(w *networking.WorkloadEntry) { w.Weight = 2 })
	for _, e := range c.Convert(upserts(changed)) {
		if e.Problems != nil {
			t.Errorf("the Problems were sent again: %v", e.Problems.List)
		}
	}
}
