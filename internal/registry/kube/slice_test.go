package kube_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/registry/conform"
	"github.com/meshpilot/meshpilot/internal/registry/kube"
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

func TestEndpointConditions(t *testing.T) {
	const ready = "{ready: true, serving: true, terminating: false}"
	for _, c := range []struct {
		conditions     string
		there, publish bool // there: by default; publish: with publishNotReadyAddresses
	}{
		{ready, true, true},
		{"{}", true, true},
		{"{ready: false}", false, true},
		{"{ready: false, serving: true, terminating: true}", false, true},
		{"{ready: false, serving: false, terminating: true}", false, true},
	} {
		slice := edit(t, reviewsSlice, ready, c.conditions)
		state := converted(t, kube.Options{}, reviewsService, reviewsPod, slice)
		e := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]
		if (e != nil) != c.there {
			t.Errorf("%s: there %t, want %t", c.conditions, e != nil, c.there)
		}
		published := converted(t, kube.Options{}, edit(t, reviewsService, "spec:", "spec:\n  publishNotReadyAddresses: true"), reviewsPod, slice)
		e = endpoints(published, reviewsHost)["10.244.0.5:9080/http"]
		if (e != nil) != c.publish || e != nil && e.Health != mesh.Healthy {
			t.Errorf("%s with publishNotReadyAddresses: %+v, want there %t", c.conditions, e, c.publish)
		}
	}
}

// The service may come, or change its mind about readiness, after its slices.
func TestPublishNotReadyComesLater(t *testing.T) {
	c := kube.New(kube.Options{})
	state := conform.Fold(c.Convert(objects(t, reviewsPod, edit(t, reviewsSlice, "ready: true", "ready: false"))))
	publishing := object(t, edit(t, reviewsService, "spec:", "spec:\n  publishNotReadyAddresses: true"))
	for _, step := range []struct {
		event mesh.Event
		want  int
	}{{mesh.Event{Config: publishing}, 1}, {mesh.Event{Config: object(t, reviewsService)}, 0}, {mesh.Event{Config: publishing}, 1}, {gone(publishing), 0}} {
		if err := state.Apply(c.Convert(mesh.Batch{step.event})); err != nil {
			t.Fatal(err)
		}
		if got := len(endpoints(state, reviewsHost)); got != step.want {
			t.Errorf("%d endpoints, want %d", got, step.want)
		}
	}
}

// An endpoint whose pod is not known yet has no identity: it is held back until the pod comes.
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
		t.Errorf("the endpoint whose pod came has no identity: %+v", e)
	}
	if named := problems(state, api.EndpointSlice, "reviews-abc"); !strings.Contains(named[0], "1 held back") || !strings.Contains(named[0], "default/other") {
		t.Errorf("problem %q does not name the pod that is missing", named)
	}
	step(2, 0, objects(t, other)...)
	step(1, 1, gone(object(t, other)))
	step(0, 0, gone(object(t, two)))
}

// An address that refers to no pod gets the one pod that has it, if there is one.
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

// A slice that lists several ports and the same address twice gives each once, sorted.
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

// Where nobody runs the endpoint controller, a Service without any EndpointSlice selects its pods itself.
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
			t.Errorf("files %t: selects pods %t after the last slice went", files, got)
		}
		_ = state.Apply(c.Convert(objects(t, edit(t, reviewsService, "selector: {app: reviews}", "selector: {}"))))
		if s := service(t, state); s.SelectsPods || s.Selector != nil {
			t.Errorf("files %t: without a selector %v is selected", files, s.Selector)
		}
	}
}
