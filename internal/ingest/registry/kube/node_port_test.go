package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	nodePortGateway = `
kind: Service
metadata:
  name: eastwest
  namespace: istio-system
  labels: {topology.istio.io/network: net-1}
  annotations: {traffic.istio.io/nodeSelector: '{"ingress": "yes"}'}
spec: {type: NodePort, clusterIP: 10.96.0.9, ports: [{name: tls, port: 15443, nodePort: 31443}, {name: status, port: 15021}]}`
	ingressNode = `
kind: Node
metadata: {name: node-1, labels: {ingress: "yes"}}
status: {addresses: [{type: Hostname, address: node-1}, {type: InternalIP, address: 10.0.0.1}, {type: ExternalIP, address: 192.0.2.1}, {type: ExternalIP, address: 192.0.2.9}]}`
)

// A gateway that is reached through nodes has the addresses of the nodes that its annotation
// selects, and their ports.
func TestNodePortGateway(t *testing.T) {
	other := edit(t, ingressNode, "name: node-1", "name: node-2", "192.0.2.1", "192.0.2.2")
	for _, c := range []struct {
		name    string
		service string
		nodes   []string
		want    []string
		ports   map[uint32]uint32
	}{
		{"chosen", nodePortGateway, []string{other, ingressNode}, []string{"192.0.2.1", "192.0.2.2"}, map[uint32]uint32{15443: 31443}},
		{"one is not", nodePortGateway, []string{edit(t, other, `"yes"`, `"no"`), ingressNode}, []string{"192.0.2.1"}, map[uint32]uint32{15443: 31443}},
		{"one has no external address", nodePortGateway, []string{edit(t, other, "ExternalIP", "InternalIP", "ExternalIP", "InternalIP"), ingressNode}, []string{"192.0.2.1"}, map[uint32]uint32{15443: 31443}},
		{"all", edit(t, nodePortGateway, `{"ingress": "yes"}`, "{}"), []string{edit(t, ingressNode, `"yes"`, `"no"`)}, []string{"192.0.2.1"}, map[uint32]uint32{15443: 31443}},
		{"all, by no text", edit(t, nodePortGateway, `{"ingress": "yes"}`, ""), []string{ingressNode}, []string{"192.0.2.1"}, map[uint32]uint32{15443: 31443}},
		{"of no selector that can be read", edit(t, nodePortGateway, `{"ingress": "yes"}`, "yes"), []string{ingressNode}, nil, map[uint32]uint32{15443: 31443}},
		{"addresses of its own", edit(t, nodePortGateway, "ports:", "externalIPs: [198.51.100.1], ports:"), []string{ingressNode}, []string{"198.51.100.1"}, map[uint32]uint32{15443: 31443}},
		{"a load balancer", edit(t, nodePortGateway, "type: NodePort", "type: LoadBalancer"), []string{ingressNode}, nil, nil},
		{"no node selector", edit(t, nodePortGateway, "traffic.istio.io/nodeSelector", "x"), []string{ingressNode}, nil, nil},
	} {
		s := service(t, converted(t, kube.Options{}, append(c.nodes, c.service)...))
		if diff := cmp.Diff(c.want, s.External); diff != "" {
			t.Errorf("%s: addresses -want +got:\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.ports, s.ExternalPorts); diff != "" {
			t.Errorf("%s: ports -want +got:\n%s", c.name, diff)
		}
	}
}

// Nodes may come, change and go after the Service; what else changes of a node is nothing to it,
// and no node is anything to other Services.
func TestNodesOfGateway(t *testing.T) {
	c := kube.New(kube.Options{})
	state := conform.Fold(c.Convert(objects(t, nodePortGateway, reviewsService)))
	step := func(name string, event mesh.Event, events int, want ...string) {
		t.Helper()
		said := c.Convert(mesh.Batch{event})
		if len(said) != events {
			t.Errorf("%s: %d events, want %d", name, len(said), events)
		}
		if err := state.Apply(said); err != nil {
			t.Fatal(err)
		}
		for id, s := range state.Services {
			if id.Host == reviewsHost && s.External != nil || id.Host != reviewsHost && !cmp.Equal(s.External, want) {
				t.Errorf("%s: %s is at %q, want %q", name, id.Host, s.External, want)
			}
		}
	}
	node := mesh.Event{Config: object(t, ingressNode)}
	step("a node is added", node, 1, "192.0.2.1")
	step("its conditions change", mesh.Event{Config: object(t, edit(t, ingressNode, "status: {", "status: {conditions: [{type: Ready, status: 'True'}], "))}, 0, "192.0.2.1")
	step("another address", mesh.Event{Config: object(t, edit(t, ingressNode, "192.0.2.1", "192.0.2.3"))}, 1, "192.0.2.3")
	step("chosen no more", mesh.Event{Config: object(t, edit(t, ingressNode, `"yes"`, `"no"`))}, 1)
	step("chosen again", node, 1, "192.0.2.1")
	step("a node is deleted", gone(node.Config), 1)
	step("the annotation is removed", mesh.Event{Config: object(t, edit(t, nodePortGateway, "traffic.istio.io/nodeSelector", "x"))}, 1)
	step("a node without a gateway", node, 0)
}
