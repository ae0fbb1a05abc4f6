package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// client is an xDS client with the clusters of all services. It records when endpoints become healthy
// or unhealthy.
type client struct {
	conn   *grpc.ClientConn
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	done   chan struct{} // closed when the stream has ended

	mu        sync.Mutex
	healthy   map[string]bool // by address; absent before the first response
	pending   map[string]pending
	received  int // resources of endpoints
	latencies []time.Duration
	// added are the times between Consul's answer and the receipt; 0 if the receipt was first.
	added []time.Duration
}

// pending is a change that has been sent to Consul and has not arrived.
type pending struct {
	healthy  bool
	began    time.Time
	accepted time.Time // when Consul had answered; zero before
}

// connect opens a stream and subscribes to all clusters.
func connect(ctx context.Context, xds string) (*client, error) {
	conn, err := grpc.NewClient(xds, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)))
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, done: make(chan struct{}), healthy: map[string]bool{}, pending: map[string]pending{}}
	if c.stream, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("open an xDS stream: %w", err)
	}
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "default", "ISTIO_VERSION": "1.31.0"})
	if err != nil {
		return nil, err
	}
	err = c.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node:    &corev3.Node{Id: "sidecar~10.250.0.1~bench.default~default.svc.cluster.local", Metadata: metadata},
		TypeUrl: clusterType,
	})
	go func() {
		defer close(c.done)
		if err := c.receive(); ctx.Err() == nil && status.Code(err) != codes.Canceled {
			fmt.Fprintln(os.Stderr, "the xDS stream ended:", err)
		}
	}()
	return c, err
}

// receive acknowledges responses until the stream ends.
func (c *client) receive() error {
	for {
		r, err := c.stream.Recv()
		if err != nil {
			return err
		}
		now := time.Now()
		requests := []*discoveryv3.DeltaDiscoveryRequest{{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce}}
		switch r.TypeUrl {
		case clusterType:
			subscribe := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: endpointType}
			for _, x := range r.Resources {
				if strings.Contains(x.Name, "service-") {
					subscribe.ResourceNamesSubscribe = append(subscribe.ResourceNamesSubscribe, x.Name)
				}
			}
			requests = append(requests, subscribe)
		case endpointType:
			if err := c.store(r, now); err != nil {
				return err
			}
		}
		for _, x := range requests {
			if err := c.stream.Send(x); err != nil {
				return err
			}
		}
	}
}

// store records the health of the endpoints in a response.
func (c *client) store(r *discoveryv3.DeltaDiscoveryResponse, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range r.Resources {
		var a endpointv3.ClusterLoadAssignment
		if err := x.Resource.UnmarshalTo(&a); err != nil {
			return err
		}
		c.received++
		listed := map[string]bool{}
		for _, locality := range a.Endpoints {
			for _, e := range locality.LbEndpoints {
				h := e.HealthStatus
				listed[e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()] =
					h == corev3.HealthStatus_UNKNOWN || h == corev3.HealthStatus_HEALTHY
			}
		}
		c.storeService(a.ClusterName, listed, now)
	}
	return nil
}

// storeService records the healthy addresses of a cluster. c.mu is held.
func (c *client) storeService(cluster string, healthy map[string]bool, now time.Time) {
	var service int
	if _, err := fmt.Sscanf(cluster[strings.Index(cluster, "service-"):], "service-%d.", &service); err != nil {
		return
	}
	for i := range 256 {
		a := address(service, i)
		if _, known := c.healthy[a]; !known && !healthy[a] {
			continue
		}
		c.healthy[a] = healthy[a]
		if p, waits := c.pending[a]; waits && p.healthy == healthy[a] {
			c.latencies = append(c.latencies, now.Sub(p.began))
			if p.accepted.IsZero() {
				c.added = append(c.added, 0)
			} else {
				c.added = append(c.added, max(0, now.Sub(p.accepted)))
			}
			delete(c.pending, a)
		}
	}
}

// expect records that a change is about to be sent. It returns false if an earlier change of the same
// instance has not arrived.
func (c *client) expect(address string, healthy bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, waits := c.pending[address]; waits {
		return false
	}
	c.pending[address] = pending{healthy: healthy, began: time.Now()}
	return true
}

// recordAccepted records that Consul has answered the change of an instance.
func (c *client) recordAccepted(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, waits := c.pending[address]; waits {
		p.accepted = time.Now()
		c.pending[address] = p
	}
}

// counts returns the number of endpoints, of changes that have not arrived, and of received resources.
func (c *client) counts() (endpoints, waiting, received int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.healthy), len(c.pending), c.received
}

// awaitEndpoints waits until the client has n endpoints.
func (c *client) awaitEndpoints(ctx context.Context, n int) error {
	return await(ctx, "all endpoints", func() error {
		if got, _, _ := c.counts(); got != n {
			return fmt.Errorf("%d of %d", got, n)
		}
		return nil
	})
}

// takeLatencies returns latencies and added since the last call.
func (c *client) takeLatencies() (latencies, added []time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latencies, added = c.latencies, c.added
	c.latencies, c.added = nil, nil
	return latencies, added
}

// close ends the stream.
func (c *client) close() {
	c.conn.Close()
	<-c.done
}
