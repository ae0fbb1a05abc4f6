package kube_test

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestAddressListedTwice permutes the entries of a slice for one address, which differ in their
// conditions, pods, hostnames and nodes. The shard has the healthiest of them, and is the same for
// each order.
func TestAddressListedTwice(t *testing.T) {
	const (
		slice = `
kind: EndpointSlice
metadata: {name: s, namespace: default, labels: {kubernetes.io/service-name: legacy}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [`
		serviceWithSessions = `
kind: Service
metadata: {name: legacy, namespace: default, labels: {istio.io/persistent-session: cookie}}
spec: {ports: [{name: http, port: 80}]}`
		unready  = "{addresses: [192.0.2.1], conditions: {ready: false, serving: false, terminating: false}, nodeName: a}"
		draining = "{addresses: [192.0.2.1], conditions: {ready: false, serving: true, terminating: true}, nodeName: b}"
		ready    = "{addresses: [192.0.2.1], conditions: {ready: true}, nodeName: c}"
		named    = "{addresses: [192.0.2.1], conditions: {ready: true}, nodeName: c, hostname: web-0}"
		onOther  = "{addresses: [192.0.2.1], conditions: {ready: true}, nodeName: d}"
	)
	pod := func(name string) string {
		return "{addresses: [192.0.2.1], conditions: {ready: true}, targetRef: {kind: Pod, name: " + name + ", namespace: default}}"
	}
	one, two := edit(t, reviewsPod, "name: reviews-v1-7d9c-x1", "name: pod-1"), edit(t, reviewsPod, "name: reviews-v1-7d9c-x1", "name: pod-2")
	for _, test := range []struct {
		name    string
		entries []string
		want    mesh.Endpoint
	}{
		{"conditions", []string{unready, ready}, mesh.Endpoint{Node: "c"}},
		{"terminating", []string{unready, draining}, mesh.Endpoint{Health: mesh.Draining, Node: "b"}},
		{"all conditions", []string{unready, draining, ready}, mesh.Endpoint{Node: "c"}},
		{"nodes", []string{ready, onOther}, mesh.Endpoint{Node: "c"}},
		{"hostnames", []string{ready, named}, mesh.Endpoint{Node: "c"}},
		{"pods", []string{pod("pod-2"), pod("pod-1")}, mesh.Endpoint{Node: "node-1", Workload: "pod-1"}},
	} {
		hashes := map[uint64]bool{}
		for entries := range permutations(test.entries) {
			s := converted(t, kube.Options{}, serviceWithSessions, one, two, slice+strings.Join(entries, ", ")+"]")
			got := endpoints(s, legacyHost)["192.0.2.1:80/http"]
			if got == nil || got.Health != test.want.Health || got.Node != test.want.Node || got.Workload != test.want.Workload {
				t.Errorf("%s: %v: the endpoint is %+v", test.name, entries, got)
			}
			for _, shard := range s.Shards {
				if len(shard.Endpoints) != 1 {
					t.Errorf("%s: %v: %d endpoints", test.name, entries, len(shard.Endpoints))
				}
				hashes[shard.Hash] = true
			}
		}
		if len(hashes) != 1 {
			t.Errorf("%s: %d shards", test.name, len(hashes))
		}
	}
}

// permutations yields all orders of list. The slice that it yields is used again.
func permutations(list []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) { permute(list, 0, yield) }
}

// permute yields the orders of list that keep the elements before from. It returns false if yield
// does.
func permute(list []string, from int, yield func([]string) bool) bool {
	if from == len(list) {
		return yield(list)
	}
	for i := from; i < len(list); i++ {
		list[from], list[i] = list[i], list[from]
		if !permute(list, from+1, yield) {
			return false
		}
		list[from], list[i] = list[i], list[from]
	}
	return true
}
