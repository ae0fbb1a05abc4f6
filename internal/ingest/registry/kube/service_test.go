package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func TestService(t *testing.T) {
	for _, c := range []struct {
		name     string
		manifest string
		want     mesh.Service // without the fields that all have
	}{
		{
			name: "selector, ports and target ports",
			manifest: `
kind: Service
metadata: {name: a, namespace: b, labels: {l: x}, creationTimestamp: "2024-05-01T00:00:00Z"}
spec:
  clusterIP: 10.0.0.1
  selector: {app: a}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: web, port: 81, targetPort: named}, {name: tcp, port: 82}]`,
			want: mesh.Service{
				Addresses: []string{"10.0.0.1"}, Resolution: mesh.Static, Labels: map[string]string{"l": "x"},
				Created:  time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC),
				Selector: map[string]string{"app": "a"}, SelectsWorkloadEntries: true,
				Ports: []mesh.Port{
					{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 8080},
					{Name: "web", Number: 81, TargetName: "named"},
					{Name: "tcp", Number: 82, Protocol: mesh.TCP, Target: 82},
				},
			},
		},
		{
			name: "dual stack",
			manifest: `
kind: Service
metadata: {name: a, namespace: b}
spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "FD00::1"]}`,
			want: mesh.Service{Addresses: []string{"10.0.0.1", "fd00::1"}, Resolution: mesh.Static, Ports: []mesh.Port{}},
		},
		{
			name: "headless",
			manifest: `
kind: Service
metadata: {name: a, namespace: b}
spec: {clusterIP: None, clusterIPs: [None], selector: {app: a}, publishNotReadyAddresses: true}`,
			want: mesh.Service{Resolution: mesh.Passthrough, Headless: true, PublishNotReady: true,
				Selector: map[string]string{"app": "a"}, Ports: []mesh.Port{}},
		},
		{
			name: "without a selector and an address, as in a file",
			manifest: `
kind: Service
metadata: {name: a, namespace: b}
spec: {ports: [{port: 80}]}`,
			want: mesh.Service{Resolution: mesh.Static, Ports: []mesh.Port{{Number: 80, Target: 80}}},
		},
		{
			name: "an alias",
			manifest: `
kind: Service
metadata: {name: a, namespace: b}
spec: {type: ExternalName, externalName: Reviews.default.svc.cluster.local., selector: {app: ignored}, ports: [{name: http, port: 80}]}`,
			want: mesh.Service{
				Type: "ExternalName", Resolution: mesh.Alias, MeshExternal: true, AliasOf: "reviews.default.svc.cluster.local",
				Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP, Target: 80}},
			},
		},
		{
			name: "near endpoints only",
			manifest: `
kind: Service
metadata: {name: a, namespace: b}
spec: {clusterIP: 10.0.0.1, internalTrafficPolicy: Local, trafficDistribution: PreferClose}`,
			want: mesh.Service{Addresses: []string{"10.0.0.1"}, Resolution: mesh.Static, NodeLocal: true,
				TrafficDistribution: "PreferSameZone", Ports: []mesh.Port{}},
		},
		{
			name: "annotations",
			manifest: `
kind: Service
metadata:
  name: a
  namespace: b
  annotations:
    networking.istio.io/exportTo: "z, ., z"
    networking.istio.io/traffic-distribution: prefersamenode
    alpha.istio.io/kubernetes-serviceaccounts: vm
    alpha.istio.io/canonical-serviceaccounts: spiffe://other/x
spec: {clusterIP: 10.0.0.1}`,
			want: mesh.Service{Addresses: []string{"10.0.0.1"}, Resolution: mesh.Static, ExportTo: []string{".", "z"},
				TrafficDistribution: "PreferSameNode", Accounts: []string{"spiffe://other/x", "spiffe://td.example/ns/b/sa/vm"}, Ports: []mesh.Port{}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := service(t, converted(t, kube.Options{Cluster: "c1", Domain: "mesh.local", TrustDomain: "td.example"}, c.manifest))
			want := c.want
			want.ServiceKey = mesh.ServiceKey{Namespace: "b", Host: "a.b.svc.mesh.local"}
			want.Provider, want.Cluster, want.Name = mesh.Kubernetes, "c1", "a"
			want.From = config.Key{Kind: api.Service, Namespace: "b", Name: "a"}
			if diff := cmp.Diff(want.Sealed(), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestServiceProblems is not used as it was written is named.
func TestServiceProblems(t *testing.T) {
	for _, c := range []struct{ manifest, want string }{
		{`{type: ExternalName}`, "error spec.externalName: is required for type ExternalName"},
		{`{clusterIPs: [10.0.0.1, x]}`, `error spec.clusterIPs[1]: "x" is not an IP address`},
		{`{ports: [{port: 80}, {port: -1}]}`, "error spec.ports[1].port: -1 is not a port number"},
		{`{trafficDistribution: Nearby}`, `warning spec.trafficDistribution: "Nearby" is none of PreferSameZone`},
	} {
		s := converted(t, kube.Options{}, "kind: Service\nmetadata: {name: a, namespace: b}\nspec: "+c.manifest)
		if got := problems(s, api.Service, "a"); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, want %q", c.manifest, got, c.want)
		}
	}
	s := converted(t, kube.Options{}, `
kind: Service
metadata:
  name: a
  namespace: b
  annotations: {traffic.istio.io/nodeSelector: "{ingress", networking.istio.io/traffic-distribution: Far}
spec: {type: NodePort}`)
	got := strings.Join(problems(s, api.Service, "a"), "\n")
	for _, want := range []string{"metadata.annotations[traffic.istio.io/nodeSelector]: is not a JSON object of labels", `"Far" is none of`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the problems:\n%s", want, got)
		}
	}
}

func TestTrafficDistributionOfNamespace(t *testing.T) {
	namespace := `
kind: Namespace
metadata: {name: default, annotations: {networking.istio.io/traffic-distribution: PreferClose}}`
	c := kube.New(kube.Options{})
	state := conform.Fold(c.Convert(objects(t, reviewsService)))
	for _, step := range []struct {
		event mesh.Event
		want  string
	}{
		{mesh.Event{Config: object(t, namespace)}, "PreferSameZone"},
		{mesh.Event{Config: object(t, edit(t, reviewsService, "spec:", "spec:\n  trafficDistribution: PreferSameNode"))}, "PreferSameNode"},
		{mesh.Event{Config: object(t, edit(t, reviewsService, "labels:", "annotations: {networking.istio.io/traffic-distribution: any}, labels:"))}, ""},
		{mesh.Event{Config: object(t, reviewsService)}, "PreferSameZone"},
		{gone(object(t, namespace)), ""},
	} {
		if err := state.Apply(c.Convert(mesh.Batch{step.event})); err != nil {
			t.Fatal(err)
		}
		if got := service(t, state).TrafficDistribution; got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
}

// Settings bring the trust domain and networks; whatever has an identity or a network follows.
func TestSettings(t *testing.T) {
	c := kube.New(kube.Options{Cluster: "c1"})
	annotated := edit(t, reviewsService, "labels:", "annotations: {alpha.istio.io/kubernetes-serviceaccounts: vm}, labels:")
	state := conform.Fold(c.Convert(objects(t, annotated, reviewsPod, reviewsSlice, manualSlice)))
	settings := func(s mesh.Settings) {
		t.Helper()
		if err := state.Apply(c.Convert(mesh.Batch{{Settings: &s}})); err != nil {
			t.Fatal(err)
		}
	}
	check := func(account, vm string, pod, elsewhere mesh.Network) {
		t.Helper()
		e := endpoints(state, reviewsHost)["10.244.0.5:9080/http"]
		if e.Account != account || e.Network != pod {
			t.Errorf("endpoint: account %q network %q, want %q %q", e.Account, e.Network, account, pod)
		}
		w := workload(state, "default", "reviews-v1-7d9c-x1")
		if w.Account != account || w.Network != pod || w.Labels["topology.istio.io/network"] != string(pod) {
			t.Errorf("workload: account %q network %q, want %q %q", w.Account, w.Network, account, pod)
		}
		if e := endpoints(state, "legacy.default.svc.cluster.local")["192.0.2.1:80/"]; e.Network != elsewhere {
			t.Errorf("address without a pod: network %q, want %q", e.Network, elsewhere)
		}
		if got := service(t, state).Accounts; !cmp.Equal(got, []string{vm}) {
			t.Errorf("accounts of the service: %q, want %q", got, vm)
		}
	}
	const sa, vm = "/ns/default/sa/bookinfo-reviews", "/ns/default/sa/vm"
	check("spiffe://cluster.local"+sa, "spiffe://cluster.local"+vm, "", "")
	settings(mesh.Settings{Mesh: &meshconfig.MeshConfig{TrustDomain: "td2"}})
	check("spiffe://td2"+sa, "spiffe://td2"+vm, "", "")
	cidr := func(c string) *meshconfig.Network_NetworkEndpoints {
		return &meshconfig.Network_NetworkEndpoints{Ne: &meshconfig.Network_NetworkEndpoints_FromCidr{FromCidr: c}}
	}
	registry := &meshconfig.Network_NetworkEndpoints{Ne: &meshconfig.Network_NetworkEndpoints_FromRegistry{FromRegistry: "c1"}}
	settings(mesh.Settings{Networks: &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"pods": {Endpoints: []*meshconfig.Network_NetworkEndpoints{cidr("10.244.0.0/16")}},
		"rest": {Endpoints: []*meshconfig.Network_NetworkEndpoints{cidr("192.0.0.0/8"), cidr("bad")}},
	}}})
	check("spiffe://td2"+sa, "spiffe://td2"+vm, "pods", "rest")
	settings(mesh.Settings{Networks: &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"pods": {Endpoints: []*meshconfig.Network_NetworkEndpoints{cidr("10.244.0.0/16")}},
		"all":  {Endpoints: []*meshconfig.Network_NetworkEndpoints{registry}},
	}}})
	check("spiffe://td2"+sa, "spiffe://td2"+vm, "all", "all")
	if err := state.Apply(c.Convert(objects(t, systemNamespace))); err != nil {
		t.Fatal(err)
	}
	check("spiffe://td2"+sa, "spiffe://td2"+vm, "net-1", "net-1")
	if said := c.Convert(mesh.Batch{{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{TrustDomain: "td2"}}}}); len(said) != 1 {
		t.Errorf("settings without a change emit %d events, want only the settings event", len(said))
	}
}

// TestPoolServices leaves out the Services that Istio creates for InferencePools, and their
// EndpointSlices, if InferencePools are enabled.
func TestPoolServices(t *testing.T) {
	objects, err := fixture.Decode([]byte(`
kind: Service
apiVersion: v1
metadata: {name: llama-ip-fc5a1047, labels: {internal.istio.io/service-semantics: inferencepool}}
spec: {clusterIP: None, selector: {app: llama}, ports: [{name: http-0, port: 54321}]}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: llama, labels: {kubernetes.io/service-name: llama-ip-fc5a1047, internal.istio.io/service-semantics: inferencepool}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}]
ports: [{name: http-0, port: 8000}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for enabled, want := range map[bool]int{false: 2, true: 0} {
		c := kube.New(kube.Options{InferencePools: enabled})
		if out := c.Convert(fixture.Events(mesh.Upsert, objects...)); len(out) != want {
			t.Errorf("enabled %t: %d events, want %d", enabled, len(out), want)
		}
	}
}
