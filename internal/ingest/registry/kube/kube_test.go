package kube_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// objects reads Kubernetes manifests, separated by "---", as upserts.
func objects(t testing.TB, manifests ...string) mesh.Batch {
	t.Helper()
	var batch mesh.Batch
	for _, manifest := range manifests {
		for _, doc := range strings.Split(manifest, "\n---\n") {
			batch = append(batch, mesh.Event{Config: object(t, doc)})
		}
	}
	return batch
}

func object(t testing.TB, manifest string) *config.Config {
	t.Helper()
	var head struct{ Kind string }
	if err := yaml.Unmarshal([]byte(manifest), &head); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	info, known := api.Info(api.Kind(head.Kind))
	if !known {
		t.Fatalf("unknown kind %q", head.Kind)
	}
	spec := info.NewObject()
	if err := yaml.UnmarshalStrict([]byte(manifest), spec); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	c, err := config.New(config.Meta{
		Key:         config.Key{Kind: info.Kind, Namespace: spec.GetNamespace(), Name: spec.GetName()},
		Labels:      spec.GetLabels(),
		Annotations: spec.GetAnnotations(),
		Created:     spec.GetCreationTimestamp().Time,
		Origin:      "test.yaml#1:1",
	}, spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func gone(c *config.Config) mesh.Event {
	return mesh.Event{Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: c.Key}}}
}

// converted returns the output of a new Converter for the manifests. Services select
// WorkloadEntries, as by default.
func converted(t testing.TB, o kube.Options, manifests ...string) *conform.State {
	t.Helper()
	state := conform.NewState()
	o.SelectWorkloadEntries = true
	if err := state.Apply(kube.New(o).Convert(objects(t, manifests...))); err != nil {
		t.Fatal(err)
	}
	return state
}

// service returns the one service of the state.
func service(t testing.TB, s *conform.State) *mesh.Service {
	t.Helper()
	if len(s.Services) != 1 {
		t.Fatalf("%d services, want 1", len(s.Services))
	}
	for _, svc := range s.Services {
		return svc
	}
	return nil
}

// endpoints returns the endpoints of a service over all shards, by "address:port/service port".
func endpoints(s *conform.State, host mesh.Hostname) map[string]*mesh.Endpoint {
	found := map[string]*mesh.Endpoint{}
	for id, shard := range s.Shards {
		if id.Service.Host != host {
			continue
		}
		for _, e := range shard.Endpoints {
			found[e.HostPort()+"/"+e.ServicePort] = e
		}
	}
	return found
}

// workload returns the workload of that name.
func workload(s *conform.State, namespace, name string) *mesh.Workload {
	for id, w := range s.Workloads {
		if id.Namespace == namespace && id.Name == name {
			return w
		}
	}
	return nil
}

// problems returns "field: reason" of all Problems of the object of that kind and name.
func problems(s *conform.State, kind api.Kind, name string) []string {
	var list []string
	for _, of := range s.Problems {
		for _, p := range of {
			if p.Key.Kind == kind && p.Key.Name == name {
				list = append(list, string(p.Severity)+" "+p.Field+": "+p.Reason)
			}
		}
	}
	return list
}

const (
	reviewsHost mesh.Hostname = "reviews.default.svc.cluster.local"

	reviewsService = `
kind: Service
metadata: {name: reviews, namespace: default, labels: {app: reviews}, creationTimestamp: "2024-05-01T00:00:00Z"}
spec:
  clusterIP: 10.96.0.10
  selector: {app: reviews}
  ports: [{name: http, port: 9080, targetPort: 9080}]`
	reviewsSlice = `
kind: EndpointSlice
metadata: {name: reviews-abc, namespace: default, labels: {kubernetes.io/service-name: reviews}}
addressType: IPv4
ports: [{name: http, port: 9080}]
endpoints:
- addresses: [10.244.0.5]
  conditions: {ready: true, serving: true, terminating: false}
  nodeName: node-1
  targetRef: {kind: Pod, name: reviews-v1-7d9c-x1, namespace: default}`
	reviewsPod = `
kind: Pod
metadata:
  name: reviews-v1-7d9c-x1
  namespace: default
  labels: {app: reviews, version: v1, pod-template-hash: 7d9c, security.istio.io/tlsMode: istio}
  ownerReferences: [{kind: ReplicaSet, name: reviews-v1-7d9c, controller: true, apiVersion: apps/v1, uid: u}]
spec:
  serviceAccountName: bookinfo-reviews
  nodeName: node-1
  containers: [{name: reviews, ports: [{name: web, containerPort: 9080, protocol: TCP}]}]
status:
  phase: Running
  podIP: 10.244.0.5
  podIPs: [{ip: 10.244.0.5}]
  conditions: [{type: Ready, status: "True"}]`
	node1 = `
kind: Node
metadata:
  name: node-1
  labels: {topology.kubernetes.io/region: eu, topology.kubernetes.io/zone: eu-1, topology.istio.io/subzone: rack-7}`
	systemNamespace = `
kind: Namespace
metadata: {name: istio-system, labels: {topology.istio.io/network: net-1}}`
	manualSlice = `
kind: EndpointSlice
metadata: {name: legacy, namespace: default, labels: {kubernetes.io/service-name: legacy}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.244.0.5]}, {addresses: [192.0.2.1]}]`
)

// edit replaces text in a manifest, which must be there.
func edit(t testing.TB, manifest string, oldNew ...string) string {
	t.Helper()
	for i := 0; i < len(oldNew); i += 2 {
		if !strings.Contains(manifest, oldNew[i]) {
			t.Fatalf("no %q in\n%s", oldNew[i], manifest)
		}
		manifest = strings.Replace(manifest, oldNew[i], oldNew[i+1], 1)
	}
	return manifest
}
