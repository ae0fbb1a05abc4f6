package kubefaults

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/internal/api"
)

// proxy is a simulated sidecar with one delta stream. It keeps what it has, and a record of what it was sent.
type proxy struct {
	t      *testing.T
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

	mu   sync.Mutex
	have map[string]map[string]*discoveryv3.Resource // by type and name
	// record is what was sent since the last look: "cds outbound|80||a", "cds -outbound|80||a".
	record []string
	// must are clusters that always have endpoints.
	must []string
}

// connect connects a sidecar of a namespace and subscribes as Envoy does.
func (p *controlPlane) connect(namespace, ip string) *proxy {
	p.t.Helper()
	conn, err := grpc.NewClient(p.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	x := &proxy{t: p.t, stream: st, have: map[string]map[string]*discoveryv3.Resource{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.receive(ctx)
	}()
	p.t.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close() // its stream has ended
	})
	x.send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: "sidecar~" + ip + "~client." + namespace + "~" + namespace + ".svc.cluster.local"}, TypeUrl: api.ClusterType,
	})
	x.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ListenerType})
	x.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.RouteType, ResourceNamesSubscribe: []string{"80"}})
	return x
}

func (x *proxy) send(r *discoveryv3.DeltaDiscoveryRequest) {
	if err := x.stream.Send(r); err != nil && x.stream.Context().Err() == nil { // not ended by the test
		x.t.Errorf("send: %v", err)
	}
}

func (x *proxy) receive(ctx context.Context) {
	for {
		r, err := x.stream.Recv()
		if err != nil {
			if ctx.Err() == nil {
				x.t.Errorf("the stream ended: %v", err)
			}
			return
		}
		waiting := x.take(r)
		x.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce})
		if len(waiting) > 0 {
			x.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.EndpointType, ResourceNamesSubscribe: waiting})
		}
	}
}

// take takes a response, and gives the clusters whose endpoints are to be asked for.
func (x *proxy) take(r *discoveryv3.DeltaDiscoveryResponse) (waiting []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	short := api.ShortType(r.TypeUrl)
	if x.have[r.TypeUrl] == nil {
		x.have[r.TypeUrl] = map[string]*discoveryv3.Resource{}
	}
	for _, resource := range r.Resources {
		_, known := x.have[r.TypeUrl][resource.Name]
		x.have[r.TypeUrl][resource.Name] = resource
		x.record = append(x.record, short+" "+resource.Name)
		c := new(clusterv3.Cluster)
		if r.TypeUrl == api.ClusterType && !known && resource.Resource.UnmarshalTo(c) == nil && c.GetType() == clusterv3.Cluster_EDS {
			waiting = append(waiting, resource.Name)
		}
		if r.TypeUrl == api.EndpointType && slices.Contains(x.must, resource.Name) && len(x.addressesOf(resource.Name)) == 0 {
			x.t.Errorf("%s has lost its endpoints", resource.Name)
		}
	}
	for _, name := range r.RemovedResources {
		delete(x.have[r.TypeUrl], name)
		x.record = append(x.record, short+" -"+name)
		if slices.Contains(x.must, name) {
			x.t.Errorf("%s %s was removed", short, name)
		}
	}
	return waiting
}

// keep says that a cluster has endpoints as long as the test lasts.
func (x *proxy) keep(cluster string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.must = append(x.must, cluster)
}

// addressesOf gives the addresses of a cluster's endpoints, sorted. The proxy is locked.
func (x *proxy) addressesOf(cluster string) []string {
	resource := x.have[api.EndpointType][cluster]
	if resource == nil {
		return nil
	}
	a := new(endpointv3.ClusterLoadAssignment)
	if err := resource.Resource.UnmarshalTo(a); err != nil {
		x.t.Error(err)
	}
	var list []string
	for _, locality := range a.Endpoints {
		for _, e := range locality.LbEndpoints {
			list = append(list, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	slices.Sort(list)
	return list
}

// endpoints checks the addresses that a cluster has.
func (x *proxy) endpoints(cluster string, want ...string) func() error {
	return func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if got := x.addressesOf(cluster); !slices.Equal(got, want) {
			return fmt.Errorf("%s has endpoints %v, want %v", cluster, got, want)
		}
		return nil
	}
}

// has checks that there is a resource, or that there is none.
func (x *proxy) has(typeURL, name string, want bool) func() error {
	return func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		if _, there := x.have[typeURL][name]; there != want {
			return fmt.Errorf("%s %s: there: %v", api.ShortType(typeURL), name, there)
		}
		return nil
	}
}

// content gives a resource as text, "" if it is not there.
func (x *proxy) content(typeURL, name string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.have[typeURL][name].GetResource().GetValue())
}

// look gives what was sent since the last look, sorted, each once.
func (x *proxy) look() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := x.record
	x.record = nil
	slices.Sort(list)
	return slices.Compact(list)
}
