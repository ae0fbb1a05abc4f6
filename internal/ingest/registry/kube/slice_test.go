package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const legacyHost mesh.Hostname = "legacy.default.svc.cluster.local"

func TestShard(t *testing.T) {
	s := converted(t, kube.Options{Cluster: "c1"}, reviewsSlice, reviewsPod, node1)
	if len(s.Shards) != 1 {
		t.Fatalf("%d shards", len(s.Shards))
	}
	want := mesh.Shard{
		Service: mesh.ServiceKey{Namespace: "default", Host: reviewsHost},
		Key: mesh.ShardKey{Provider: mesh.Kubernetes, Cluster: "c1",
			Object: config.Key{Kind: api.EndpointSlice, Namespace: "default", Name: "reviews-abc"}},
		Endpoints: []*mesh.Endpoint{{
			Address: "10.244.0.5", Port: 9080, ServicePort: "http",
			Labels:  workload(s, "default", "reviews-v1-7d9c-x1").Labels,
			Account: "spiffe://cluster.local/ns/default/sa/bookinfo-reviews", Workload: "reviews-v1-7d9c-x1", Owner: "reviews-v1",
			Namespace: "default", Node: "node-1", Locality: mesh.Locality{Region: "eu", Zone: "eu-1", SubZone: "rack-7"},
			Cluster: "c1", TLS: true,
		}},
	}.Sealed()
	for _, got := range s.Shards {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// The conditions of an endpoint decide its health. Unknown ones are true.
func TestEndpointConditions(t *testing.T) {
	const absent mesh.Health = "absent"
	const ready = "{ready: true, serving: true, terminating: false}"
	notReadyToo := edit(t, reviewsService, "spec:", "spec:\n  publishNotReadyAddresses: true")
	sessions := edit(t, reviewsService, "labels: {", "labels: {istio.io/persistent-session: cookie, ")
	near := edit(t, reviewsService, "spec:", "spec:\n  trafficDistribution: PreferClose")
	sticky := edit(t, reviewsService, "labels: {", "labels: {example.com/sticky: cookie, ")
	ownNames := mesh.LabelNames{Session: "example.com/sticky", Draining: "example.com/leaving"}
	for _, c := range []struct {
		conditions                           string
		usual, readyOnly, published, session mesh.Health
	}{
		{ready, mesh.Healthy, mesh.Healthy, mesh.Healthy, mesh.Healthy},
		{"{}", mesh.Healthy, mesh.Healthy, mesh.Healthy, mesh.Healthy},
		{"{ready: false, serving: false, terminating: false}", mesh.Unhealthy, absent, mesh.Healthy, mesh.Unhealthy},
		{"{ready: false, terminating: false}", mesh.Unhealthy, absent, mesh.Healthy, mesh.Unhealthy},
		{"{ready: false}", absent, absent, mesh.Healthy, mesh.Draining},
		{"{ready: false, serving: true, terminating: true}", absent, absent, mesh.Healthy, mesh.Draining},
		{"{ready: false, serving: false, terminating: true}", absent, absent, mesh.Healthy, absent},
	} {
		for _, o := range []struct {
			name    string
			service string
			options kube.Options
			want    mesh.Health
		}{
			{"usual", reviewsService, kube.Options{}, c.usual},
			{"ready only", reviewsService, kube.Options{ReadyOnly: true}, c.readyOnly},
			{"ready only, but callers prefer near ones", near, kube.Options{ReadyOnly: true}, c.usual},
			{"publishNotReadyAddresses", notReadyToo, kube.Options{}, c.published},
			{"persistent sessions", sessions, kube.Options{}, c.session},
			{"persistent sessions by another label", sticky, kube.Options{Labels: ownNames}, c.session},
			{"the label has another name", sessions, kube.Options{Labels: ownNames}, c.usual},
			{"the label has none", sessions, kube.Options{Labels: mesh.LabelNames{Session: mesh.NoLabel}}, c.usual},
		} {
			state := converted(t, o.options, o.service, reviewsPod, edit(t, reviewsSlice, ready, c.conditions))
			got := absent
			if e := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]; e != nil {
				got = e.Health
			}
			if got != o.want {
				t.Errorf("%s, %s: %q, want %q", o.name, c.conditions, got, o.want)
			}
		}
	}
}

// Endpoints that are not ready are emitted if callers prefer near ones, which a namespace may later
// configure for its Services.
func TestUnreadyByDistribution(t *testing.T) {
	c, state := kube.New(kube.Options{ReadyOnly: true}), conform.NewState()
	unready := edit(t, reviewsSlice, "{ready: true, serving: true, terminating: false}", "{ready: false, serving: false, terminating: false}")
	for _, step := range []struct {
		objects []string
		want    bool
	}{
		{[]string{reviewsService, reviewsPod, unready}, false},
		{[]string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: default, annotations: {networking.istio.io/traffic-distribution: PreferClose}}"}, true},
		{[]string{"apiVersion: v1\nkind: Namespace\nmetadata: {name: default}"}, false},
	} {
		var batch mesh.Batch
		for _, text := range step.objects {
			batch = append(batch, mesh.Event{Config: object(t, text)})
		}
		if err := state.Apply(c.Convert(batch)); err != nil {
			t.Fatal(err)
		}
		if _, there := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]; there != step.want {
			t.Errorf("the endpoint exists: %t, want %t", there, step.want)
		}
	}
}

// A pod that is labelled as draining is a draining endpoint of every service.
func TestDrainingPod(t *testing.T) {
	state := converted(t, kube.Options{}, edit(t, reviewsPod, "version: v1", `version: v1, istio.io/draining: "true"`), reviewsSlice)
	if e := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]; e.Health != mesh.Draining {
		t.Errorf("health of the endpoint %q", e.Health)
	}
	if w := workload(state, "default", "reviews-v1-7d9c-x1"); w.Health != mesh.Draining {
		t.Errorf("health of the workload %q", w.Health)
	}
}

// The service may be added after its slices, or change later how they are read.
func TestSliceRulesComeLater(t *testing.T) {
	c := kube.New(kube.Options{})
	state := conform.Fold(c.Convert(objects(t, reviewsPod, edit(t, reviewsSlice, "ready: true", "ready: false"))))
	publishing := object(t, edit(t, reviewsService, "spec:", "spec:\n  publishNotReadyAddresses: true"))
	for i, step := range []struct {
		event mesh.Event
		want  mesh.Health
	}{
		{mesh.Event{Config: publishing}, mesh.Healthy},
		{mesh.Event{Config: object(t, reviewsService)}, mesh.Unhealthy},
		{mesh.Event{Config: publishing}, mesh.Healthy},
		{gone(publishing), mesh.Unhealthy},
	} {
		if err := state.Apply(c.Convert(mesh.Batch{step.event})); err != nil {
			t.Fatal(err)
		}
		if e := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]; e == nil || e.Health != step.want {
			t.Errorf("step %d: %+v, want health %q", i, e, step.want)
		}
	}
}

// An endpoint whose pod is not known yet has no identity: it is held back until the pod is added.
func TestEndpointBeforePod(t *testing.T) {
	c := kube.New(kube.Options{})
	two := edit(t, reviewsSlice, "endpoints:", `endpoints:
- addresses: [10.244.0.9]
  targetRef: {kind: Pod, name: other}`)
	other := edit(t, reviewsPod, "name: reviews-v1-7d9c-x1", "name: other", "podIP: 10.244.0.5", "podIP: 10.244.0.9", "[{ip: 10.244.0.5}]", "[]")
	state := conform.NewState()
	step := func(wantEndpoints, wantPending int, events ...mesh.Event) {
		t.Helper()
		if err := state.Apply(c.Convert(events)); err != nil {
			t.Fatal(err)
		}
		if got := len(endpoints(state, reviewsHost)); got != wantEndpoints {
			t.Errorf("%d endpoints, want %d", got, wantEndpoints)
		}
		if got := c.PendingEndpoints(); got != wantPending {
			t.Errorf("%d pending, want %d", got, wantPending)
		}
		if named := problems(state, api.EndpointSlice, "reviews-abc"); (wantPending > 0) != (len(named) > 0) {
			t.Errorf("%d pending, but the problems are %q", wantPending, named)
		}
	}
	step(0, 2, objects(t, two)...)
	step(1, 1, objects(t, reviewsPod)...)
	if e := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]; e == nil || e.Account != "spiffe://cluster.local/ns/default/sa/bookinfo-reviews" {
		t.Errorf("the endpoint whose pod was added has no identity: %+v", e)
	}
	if named := problems(state, api.EndpointSlice, "reviews-abc"); !strings.HasPrefix(named[0], "warning endpoints: some are held back") {
		t.Errorf("problem %q does not name the missing pod", named)
	}
	step(2, 0, objects(t, other)...)
	step(1, 1, gone(object(t, other)))
	step(0, 0, gone(object(t, two)))
}

// An address without a pod reference gets the pod with this address if there is exactly one.
func TestEndpointByAddress(t *testing.T) {
	hosted := edit(t, reviewsPod, "serviceAccountName", "hostNetwork: true\n  serviceAccountName")
	second := edit(t, reviewsPod, "name: reviews-v1-7d9c-x1", "name: second")
	for _, c := range []struct {
		name string
		pods []string
		want string
	}{
		{"no pod", nil, ""},
		{"one pod", []string{reviewsPod}, "reviews-v1-7d9c-x1"},
		{"one host-network pod", []string{hosted}, "reviews-v1-7d9c-x1"},
		{"two host-network pods", []string{hosted, edit(t, hosted, "name: reviews-v1-7d9c-x1", "name: second")}, ""},
		{"a host-network pod and another", []string{hosted, second}, "second"},
		{"an ended pod and its successor", []string{edit(t, reviewsPod, "phase: Running", "phase: Succeeded"), second}, "second"},
		{"another namespace's pod", []string{edit(t, reviewsPod, "namespace: default", "namespace: elsewhere")}, ""},
		{"another namespace's pod and one", []string{edit(t, reviewsPod, "namespace: default", "namespace: elsewhere"), second}, "second"},
		{"only an ended pod", []string{edit(t, reviewsPod, "phase: Running", "phase: Succeeded")}, ""},
	} {
		found := endpoints(converted(t, kube.Options{Cluster: "c1"}, append(c.pods, manualSlice)...), legacyHost)
		if got := found["10.244.0.5:80/"].Workload; got != c.want {
			t.Errorf("%s: workload %q, want %q", c.name, got, c.want)
		}
		other := found["192.0.2.1:80/"]
		if other.Workload != "" || other.TLS || other.Account != "" || other.Labels["topology.istio.io/cluster"] != "c1" {
			t.Errorf("%s: the address of no pod became %+v", c.name, other)
		}
	}
}

// A StatefulSet's pod has its predecessor's name, and the slices know which of the two they mean.
func TestEndpointOfPredecessor(t *testing.T) {
	slice := edit(t, reviewsSlice, "name: reviews-v1-7d9c-x1, namespace: default}", "name: reviews-v1-7d9c-x1, uid: first}")
	pod := func(uid string) string {
		return edit(t, reviewsPod, "namespace: default\n", "namespace: default\n  uid: "+uid+"\n")
	}
	c := kube.New(kube.Options{})
	state := conform.NewState()
	for i, step := range []struct {
		event string
		want  int
	}{{slice, 0}, {pod("second"), 0}, {pod("first"), 1}, {pod("second"), 0}, {edit(t, slice, "uid: first", "uid: second"), 1}, {reviewsPod, 1}} {
		if err := state.Apply(c.Convert(objects(t, step.event))); err != nil {
			t.Fatal(err)
		}
		if got := len(endpoints(state, reviewsHost)); got != step.want {
			t.Errorf("step %d: %d endpoints, want %d", i, got, step.want)
		}
	}
}

// A pod's addresses of both families are one endpoint where the mesh and the service have both,
// else two.
func TestDualStack(t *testing.T) {
	pod := edit(t, reviewsPod, "podIPs: [{ip: 10.244.0.5}]", `podIPs: [{ip: 10.244.0.5}, {ip: "FD00::5"}]`)
	v6 := edit(t, reviewsSlice, "name: reviews-abc", "name: reviews-v6", "IPv4", "IPv6", "[10.244.0.5]", `["FD00::5"]`)
	both := edit(t, reviewsService, "clusterIP: 10.96.0.10", `clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, "fd00:96::10"]`)
	headless := edit(t, reviewsService, "clusterIP: 10.96.0.10", "clusterIP: None\n  clusterIPs: [None]")
	for _, c := range []struct {
		name    string
		on      bool
		service string
		pod     string
		want    map[string][]string
	}{
		{"off", false, both, pod, map[string][]string{"10.244.0.5:9080/http": nil, "fd00::5:9080/http": nil}},
		{"on", true, both, pod, map[string][]string{"10.244.0.5:9080/http": {"fd00::5"}}},
		{"one cluster IP", true, reviewsService, pod, map[string][]string{"10.244.0.5:9080/http": nil, "fd00::5:9080/http": nil}},
		{"headless", true, headless, pod, map[string][]string{"10.244.0.5:9080/http": nil, "fd00::5:9080/http": nil}},
		{"pod of one address", true, both, reviewsPod, map[string][]string{"10.244.0.5:9080/http": nil, "fd00::5:9080/http": nil}},
	} {
		got := map[string][]string{}
		for at, e := range endpoints(converted(t, kube.Options{DualStack: c.on}, c.service, c.pod, reviewsSlice, v6), reviewsHost) {
			got[at] = e.MoreAddresses
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
	}
}

func TestEndpointHostname(t *testing.T) {
	named := edit(t, reviewsSlice, "nodeName: node-1", "nodeName: node-1\n  hostname: given")
	for _, c := range []struct{ name, pod, slice, want string }{
		{"no subdomain", reviewsPod, reviewsSlice, ""},
		{"subdomain", edit(t, reviewsPod, "nodeName:", "subdomain: reviews\n  nodeName:"), reviewsSlice, "reviews-v1-7d9c-x1"},
		{"hostname and subdomain", edit(t, reviewsPod, "nodeName:", "subdomain: reviews\n  hostname: web-0\n  nodeName:"), reviewsSlice, "web-0"},
		{"subdomain of another service", edit(t, reviewsPod, "nodeName:", "subdomain: other\n  nodeName:"), reviewsSlice, ""},
		{"of the slice", reviewsPod, named, "given"},
	} {
		e := endpoints(converted(t, kube.Options{}, c.pod, c.slice), reviewsHost)["10.244.0.5:9080/http"]
		if e.Hostname != c.want {
			t.Errorf("%s: %q, want %q", c.name, e.Hostname, c.want)
		}
	}
}

// Two slices of one service are two shards, and deleting one leaves the other.
func TestTwoSlices(t *testing.T) {
	v6 := edit(t, reviewsSlice, "name: reviews-abc", "name: reviews-v6", "IPv4", "IPv6", "[10.244.0.5]", `["FD00::5"]`)
	c := kube.New(kube.Options{})
	state := conform.Fold(c.Convert(objects(t, reviewsPod, reviewsSlice, v6)))
	if len(state.Shards) != 2 || endpoints(state, reviewsHost)["fd00::5:9080/http"] == nil {
		t.Errorf("shards: %+v", state.Shards)
	}
	if err := state.Apply(c.Convert(mesh.Batch{gone(object(t, reviewsSlice))})); err != nil {
		t.Fatal(err)
	}
	if got := endpoints(state, reviewsHost); len(got) != 1 || got["fd00::5:9080/http"] == nil {
		t.Errorf("after the deletion of one slice: %v", got)
	}
}

// A slice that lists several ports and the same address twice returns each once, sorted.
func TestShardIsSorted(t *testing.T) {
	s := converted(t, kube.Options{}, `
kind: EndpointSlice
metadata: {name: s, namespace: default, labels: {kubernetes.io/service-name: legacy}}
addressType: IPv4
ports: [{name: b, port: 80}, {name: a, port: 80}]
endpoints: [{addresses: [192.0.2.2]}, {addresses: [192.0.2.1]}, {addresses: [192.0.2.2]}]`)
	var got []string
	for _, shard := range s.Shards {
		for _, e := range shard.Endpoints {
			got = append(got, e.HostPort()+"/"+e.ServicePort)
		}
	}
	want := []string{"192.0.2.1:80/a", "192.0.2.1:80/b", "192.0.2.2:80/a", "192.0.2.2:80/b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Slices that were copied from other clusters are passed over, with or without the label of a
// service of this one.
func TestSliceOfClusterSet(t *testing.T) {
	for _, labels := range []string{"multicluster.kubernetes.io/service-name: reviews", "kubernetes.io/service-name: reviews, multicluster.kubernetes.io/service-name: reviews"} {
		state := converted(t, kube.Options{}, reviewsPod, edit(t, reviewsSlice, "kubernetes.io/service-name: reviews", labels))
		if len(state.Shards) != 0 || len(state.Problems) != 0 {
			t.Errorf("%s: %d shards, problems %v", labels, len(state.Shards), state.Problems)
		}
	}
}

func TestSliceProblems(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"kubernetes.io/service-name: reviews", "x: y", "warning metadata.labels[kubernetes.io/service-name]: is missing"},
		{"addressType: IPv4", "addressType: FQDN", "warning addressType: FQDN is not supported"},
		{"[10.244.0.5]", "[10.244.0.5, localhost]", `error endpoints[0].addresses[1]: "localhost" is not an IP address`},
		{"[{name: http, port: 9080}]", "[{name: http, port: 9080}, {name: x}]", "error ports[1].port: is not a port number"},
	} {
		state := converted(t, kube.Options{}, reviewsPod, edit(t, reviewsSlice, c.old, c.new))
		if got := problems(state, api.EndpointSlice, "reviews-abc"); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, want %q", c.new, got, c.want)
		}
	}
}

// Where no endpoint controller runs, a Service without any EndpointSlice selects its pods
// itself.
func TestEndpointsFromPods(t *testing.T) {
	for _, files := range []bool{false, true} {
		c := kube.New(kube.Options{EndpointsFromPods: files})
		state := conform.Fold(c.Convert(objects(t, reviewsService, reviewsPod)))
		if got := service(t, state).SelectsPods; got != files {
			t.Errorf("files %t: selects pods %t", files, got)
		}
		_ = state.Apply(c.Convert(objects(t, reviewsSlice)))
		if service(t, state).SelectsPods {
			t.Errorf("files %t: selects pods although there is a slice", files)
		}
		_ = state.Apply(c.Convert(mesh.Batch{gone(object(t, reviewsSlice))}))
		if got := service(t, state).SelectsPods; got != files {
			t.Errorf("files %t: selects pods %t after the last slice was deleted", files, got)
		}
		_ = state.Apply(c.Convert(objects(t, edit(t, reviewsService, "selector: {app: reviews}", "selector: {}"))))
		if s := service(t, state); s.SelectsPods || s.Selector != nil {
			t.Errorf("files %t: without a selector %v is selected", files, s.Selector)
		}
	}
}
