package kube_test

import (
	"fmt"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestConformance(t *testing.T) {
	all := []string{reviewsService, reviewsSlice, reviewsPod, node1, systemNamespace, manualSlice}
	changed := []string{
		edit(t, reviewsService, "port: 9080", "port: 80"),
		edit(t, reviewsSlice, "ready: true", "ready: false"),
		edit(t, reviewsSlice, "service-name: reviews", "service-name: ratings"),
		edit(t, reviewsSlice, "port: 9080", "port: 9081"),
		edit(t, reviewsPod, "version: v1", "version: v2"),
		edit(t, reviewsPod, `status: "True"`, `status: "False"`),
		edit(t, reviewsPod, "phase: Running", "phase: Succeeded"),
		edit(t, reviewsPod, "podIP: 10.244.0.5", "podIP: 10.244.0.6", "podIPs: [{ip: 10.244.0.5}]", "podIPs: []"),
		edit(t, reviewsPod, "nodeName: node-1", "nodeName: node-2"),
		edit(t, reviewsPod, "nodeName: node-1", "nodeName: node-1\n  hostname: first\n  subdomain: reviews"),
		edit(t, node1, "eu-1", "eu-2"),
		edit(t, systemNamespace, "net-1", "net-2"),
		edit(t, manualSlice, "192.0.2.1", "192.0.2.2"),
		edit(t, manualSlice, "service-name: legacy", "service-name: reviews"),
	}
	same := []string{
		edit(t, reviewsService, "app: reviews}, creationTimestamp", "app: reviews}, annotations: {example.com/note: x}, creationTimestamp"),
		edit(t, reviewsPod, "phase: Running", "phase: Pending"),
		edit(t, reviewsSlice, "nodeName: node-1", "nodeName: node-1\n  zone: z"),
		edit(t, manualSlice, "[{addresses: [10.244.0.5]}, {addresses: [192.0.2.1]}]", "[{addresses: [192.0.2.1]}, {addresses: [10.244.0.5]}]"),
		edit(t, node1, "name: node-1", "name: node-1\n  annotations: {heartbeat: x}"),
	}
	broken := []string{
		edit(t, reviewsService, "clusterIP: 10.96.0.10", "clusterIP: ten"),
		edit(t, reviewsService, "port: 9080", "port: 99080"),
		edit(t, reviewsSlice, "kubernetes.io/service-name: reviews", "app: reviews"),
		edit(t, reviewsSlice, "10.244.0.5", "10.244.0.5.6"),
		edit(t, reviewsSlice, "addressType: IPv4", "addressType: FQDN"),
		edit(t, reviewsSlice, "port: 9080", "port: 0"),
		edit(t, reviewsPod, "podIP: 10.244.0.5", "podIP: here"),
	}
	for _, c := range []struct {
		name    string
		options kube.Options
	}{
		{"cluster", kube.Options{Cluster: "c1", SelectWorkloadEntries: true, DiscoverGateways: true}},
		{"files", kube.Options{EndpointsFromPods: true, SelectWorkloadEntries: true, DiscoverGateways: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := conform.Fixture{
				Start:         conform.Converter(func() registry.Converter { return kube.New(c.options) }),
				PassesThrough: true,
				Objects:       objects(t, all...),
				Changed:       objects(t, changed...),
				Same:          objects(t, same...),
				Broken:        objects(t, broken...),
				Shared: mesh.Batch{
					{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{TrustDomain: "another"}}},
				},
				Old:     mesh.Event{Config: object(t, reviewsService)},
				Renamed: mesh.Event{Config: object(t, edit(t, reviewsService, "name: reviews,", "name: critics,"))},
			}
			if c.name == "cluster" { // reading the YAML takes a second, and files are converted in the same way
				f.Large = func(n int) mesh.Batch { return largeService(t, n) }
			}
			conform.Run(t, f)
		})
	}
}

// largeService returns a Service with n endpoints, in EndpointSlices of 1,000.
func largeService(t *testing.T, n int) mesh.Batch {
	t.Helper()
	batch := objects(t, "{apiVersion: v1, kind: Service, metadata: {name: large}, spec: {clusterIP: 10.96.9.9, ports: [{name: http, port: 80}]}}")
	for from := 0; from < n; from += 1000 {
		var endpoints []string
		for i := from; i < min(n, from+1000); i++ {
			endpoints = append(endpoints, fmt.Sprintf("{addresses: [198.18.%d.%d]}", i>>8, i&255))
		}
		batch = append(batch, objects(t, fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, ports: [{name: http, port: 80}], "+
			"metadata: {name: large-%d, labels: {kubernetes.io/service-name: large}}, endpoints: [%s]}", from, strings.Join(endpoints, ", ")))...)
	}
	return batch
}

func TestPoisonedObjects(t *testing.T) {
	for _, o := range []kube.Options{{Cluster: "c1"}, {EndpointsFromPods: true, ReadyOnly: true}} {
		conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter {
			o.Recovery, o.SelectWorkloadEntries, o.DiscoverGateways = r, true, true
			return kube.New(o)
		}, objects(t, reviewsService, reviewsSlice, reviewsPod, node1, manualSlice))
	}
}
