package main

import (
	"fmt"
	"net"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// controlPlane is a minimal delta ADS server: it sends each stream all resources of a type, once
// after each change.
type controlPlane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t *testing.T

	mu        sync.Mutex
	resources map[string][]*discoveryv3.Resource // by type URL
	version   int
	changed   chan struct{} // closed by the next change
	nodes     []string
	rejects   []string
}

// newControlPlane serves those resources on the listener until the test ends. Without resources,
// its responses are empty.
func newControlPlane(t *testing.T, l net.Listener, resources ...proto.Message) *controlPlane {
	t.Helper()
	c := &controlPlane{t: t, changed: make(chan struct{})}
	c.set(resources...)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// localControlPlane starts one on loopback and returns its address.
func localControlPlane(t *testing.T, resources ...proto.Message) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	newControlPlane(t, l, resources...)
	return l.Addr().String()
}

// set replaces all resources.
func (c *controlPlane) set(messages ...proto.Message) {
	c.t.Helper()
	resources := map[string][]*discoveryv3.Resource{}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	for _, m := range messages {
		packed, err := anypb.New(m)
		if err != nil {
			c.t.Fatal(err)
		}
		r := &discoveryv3.Resource{Version: fmt.Sprint(c.version), Resource: packed}
		switch m := m.(type) {
		case *clusterv3.Cluster:
			r.Name = m.GetName()
		case *listenerv3.Listener:
			r.Name = m.GetName()
		case *corev3.TypedExtensionConfig:
			r.Name = m.GetName()
		default:
			c.t.Fatalf("%T is not a resource of this control plane", m)
		}
		resources[packed.GetTypeUrl()] = append(resources[packed.GetTypeUrl()], r)
	}
	c.resources = resources
	close(c.changed)
	c.changed = make(chan struct{})
}

// setNames replaces only the name table.
func (c *controlPlane) setNames(table mesh.NameTable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.resources[api.NameTableType] = []*discoveryv3.Resource{
		{
			Name:     "names",
			Version:  fmt.Sprint(c.version),
			Resource: &anypb.Any{TypeUrl: api.NameTableType, Value: table.Encode()},
		},
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// awaitRejects waits until Envoy has rejected n responses.
func (c *controlPlane) awaitRejects(n int) {
	c.t.Helper()
	serving.Eventually(c.t, patience, fmt.Sprintf("%d refusals", n), func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.rejects) != n {
			return fmt.Errorf("refused: %q", c.rejects)
		}
		return nil
	})
}

// connected returns the node IDs of the streams so far.
func (c *controlPlane) connected() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.nodes...)
}

// DeltaAggregatedResources serves one stream.
func (c *controlPlane) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	requests := make(chan *discoveryv3.DeltaDiscoveryRequest)
	failed := make(chan error, 1)
	go func() {
		for {
			r, err := s.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- r:
			case <-s.Context().Done():
				return
			}
		}
	}()
	sent := map[string]int{} // version by requested type
	for {
		changed, err := c.push(s, sent)
		if err != nil {
			return err
		}
		select {
		case r := <-requests:
			c.recordRequest(r)
			if _, known := sent[r.GetTypeUrl()]; !known {
				sent[r.GetTypeUrl()] = 0
			}
		case <-changed:
		case <-failed:
			return nil
		}
	}
}

func (c *controlPlane) recordRequest(r *discoveryv3.DeltaDiscoveryRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := r.GetNode().GetId(); id != "" {
		c.nodes = append(c.nodes, id)
	}
	if e := r.GetErrorDetail(); e != nil {
		c.rejects = append(c.rejects, r.GetTypeUrl()+": "+e.GetMessage())
	}
}

// push sends the resources that the stream has not received, clusters first.
func (c *controlPlane) push(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
	sent map[string]int,
) (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, typeURL := range []string{api.ClusterType, api.ExtensionType, api.ListenerType, api.NameTableType} {
		if v, asked := sent[typeURL]; !asked || v == c.version {
			continue
		}
		sent[typeURL] = c.version
		err := s.Send(
			&discoveryv3.DeltaDiscoveryResponse{
				TypeUrl:   typeURL,
				Nonce:     fmt.Sprint(c.version),
				Resources: c.resources[typeURL],
			},
		)
		if err != nil {
			return nil, err
		}
	}
	return c.changed, nil
}
