package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestWorkload(t *testing.T) {
	s := converted(t, kube.Options{Cluster: "c1"}, reviewsPod, node1, systemNamespace)
	want := mesh.Workload{
		Provider: mesh.Kubernetes, Cluster: "c1", Namespace: "default", Name: "reviews-v1-7d9c-x1", Owner: "reviews-v1",
		Addresses: []string{"10.244.0.5"}, ContainerPorts: mesh.NamedPorts{{Name: "web", Number: 9080}},
		Labels: map[string]string{
			"app": "reviews", "version": "v1", "pod-template-hash": "7d9c", "security.istio.io/tlsMode": "istio",
			"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1", "topology.istio.io/subzone": "rack-7",
			"topology.istio.io/cluster": "c1", "topology.istio.io/network": "net-1", "kubernetes.io/hostname": "node-1",
		},
		Account: "spiffe://cluster.local/ns/default/sa/bookinfo-reviews", Node: "node-1",
		Locality: mesh.Locality{Region: "eu", Zone: "eu-1", SubZone: "rack-7"}, Network: "net-1", TLS: true, Ready: true,
		From: config.Key{Kind: api.Pod, Namespace: "default", Name: "reviews-v1-7d9c-x1"},
	}.Sealed()
	if diff := cmp.Diff(want, workload(s, "default", "reviews-v1-7d9c-x1")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWorkloadReadiness(t *testing.T) {
	for _, c := range []struct {
		name                string
		change              []string
		inCluster, fromFile bool // ready
		absent              bool
	}{
		{name: "ready", inCluster: true, fromFile: true},
		{name: "not ready", change: []string{`status: "True"`, `status: "False"`}},
		{name: "no condition", change: []string{`[{type: Ready, status: "True"}]`, `[]`}, fromFile: true},
		{name: "going", change: []string{"labels:", "deletionTimestamp: \"2024-05-01T00:00:00Z\"\n  labels:"}},
		{name: "ended", change: []string{"phase: Running", "phase: Failed"}, absent: true},
		{name: "no address yet", change: []string{"podIP: 10.244.0.5", "podIP: ''", "[{ip: 10.244.0.5}]", "[]"}, absent: true},
	} {
		for _, files := range []bool{false, true} {
			w := workload(converted(t, kube.Options{EndpointsFromPods: files}, edit(t, reviewsPod, c.change...)), "default", "reviews-v1-7d9c-x1")
			want := c.inCluster && !files || c.fromFile && files
			switch {
			case c.absent != (w == nil):
				t.Errorf("%s (files %t): absent %t, want %t", c.name, files, w == nil, c.absent)
			case w != nil && w.Ready != want:
				t.Errorf("%s (files %t): ready %t, want %t", c.name, files, w.Ready, want)
			}
		}
	}
}

func TestWorkloadAddresses(t *testing.T) {
	s := converted(t, kube.Options{}, edit(t, reviewsPod, "[{ip: 10.244.0.5}]", `[{ip: 10.244.0.5}, {ip: "FD00::5"}]`))
	if got := workload(s, "default", "reviews-v1-7d9c-x1").Addresses; !cmp.Equal(got, []string{"10.244.0.5", "fd00::5"}) {
		t.Errorf("addresses %q", got)
	}
}

// Ports of native sidecars have names like those of containers, which take precedence; other init
// containers have ended.
func TestContainerPorts(t *testing.T) {
	s := converted(t, kube.Options{}, edit(t, reviewsPod, "  containers:", `  initContainers:
  - {name: native, restartPolicy: Always, ports: [{name: metrics, containerPort: 9090}, {name: web, containerPort: 1}]}
  - {name: setup, ports: [{name: setup, containerPort: 2}]}
  containers:`, "protocol: TCP}", "protocol: TCP}, {name: dns, containerPort: 53, protocol: UDP}, {name: web, containerPort: 3}"))
	want := mesh.NamedPorts{{Name: "web", Number: 9080}, {Name: "metrics", Number: 9090}}
	if diff := cmp.Diff(want, workload(s, "default", "reviews-v1-7d9c-x1").ContainerPorts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLocality(t *testing.T) {
	for _, c := range []struct {
		name, label, node string
		want              mesh.Locality
	}{
		{"of the node", "x: y", node1, mesh.Locality{Region: "eu", Zone: "eu-1", SubZone: "rack-7"}},
		{"of the pod", "topology.istio.io/locality: us.us-1.r1", node1, mesh.Locality{Region: "us", Zone: "us-1", SubZone: "r1"}},
		{"of the pod, older label", "istio-locality: us.us-1", node1, mesh.Locality{Region: "us", Zone: "us-1"}},
		{"both labels", "topology.istio.io/locality: new, istio-locality: old", node1, mesh.Locality{Region: "new"}},
		{"older node labels", "x: y", "kind: Node\nmetadata: {name: node-1, labels: {failure-domain.beta.kubernetes.io/region: r, failure-domain.beta.kubernetes.io/zone: z}}",
			mesh.Locality{Region: "r", Zone: "z"}},
		{"of another node", "x: y", edit(t, node1, "name: node-1", "name: node-2"), mesh.Locality{}},
	} {
		s := converted(t, kube.Options{}, edit(t, reviewsPod, "app: reviews", "app: reviews, "+c.label), c.node)
		if got := workload(s, "default", "reviews-v1-7d9c-x1").Locality; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOwner(t *testing.T) {
	const owners = "[{kind: ReplicaSet, name: reviews-v1-7d9c, controller: true, apiVersion: apps/v1, uid: u}]"
	owner := func(kind, name string) string {
		return "[{kind: Other, name: no, apiVersion: v1, uid: o}, {kind: " + kind + ", name: " + name + ", controller: true, apiVersion: v1, uid: u}]"
	}
	for _, c := range []struct{ name, owners, labels, want string }{
		{"Deployment", owners, "pod-template-hash: 7d9c", "reviews-v1"},
		{"ReplicaSet of its own", owners, "pod-template-hash: other", "reviews-v1-7d9c"},
		{"ReplicaSet without a hash", owner("ReplicaSet", "reviews-"), "x: y", "reviews-"},
		{"Rollout", owners, "rollouts-pod-template-hash: 7d9c", "reviews-v1"},
		{"StatefulSet", owner("StatefulSet", "db"), "x: y", "db"},
		{"CronJob", owner("Job", "backup-28123456"), "x: y", "backup"},
		{"Job", owner("Job", "backup-2"), "x: y", "backup-2"},
		{"Job of digits", owner("Job", "28123456"), "x: y", "28123456"},
		{"DeploymentConfig", owner("ReplicationController", "web-3"), "deploymentconfig: web", "web"},
		{"nothing", "[]", "x: y", "reviews-v1-7d9c-x1"},
		{"named by label", owners, "pod-template-hash: 7d9c, service.istio.io/workload-name: mine", "mine"},
	} {
		s := converted(t, kube.Options{}, edit(t, reviewsPod, owners, c.owners, "pod-template-hash: 7d9c", c.labels))
		if got := workload(s, "default", "reviews-v1-7d9c-x1").Owner; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDefaultServiceAccount(t *testing.T) {
	s := converted(t, kube.Options{TrustDomain: "td"}, edit(t, reviewsPod, "serviceAccountName: bookinfo-reviews", "hostNetwork: false"))
	if got, want := workload(s, "default", "reviews-v1-7d9c-x1").Account, "spiffe://td/ns/default/sa/default"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
