package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/resilience/controlplane/history"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

const (
	// reconnectAfter is the time after which a recorder connects to another replica; silentFor is
	// how long it waits for the first response of a replica.
	reconnectAfter, silentFor = 200 * time.Millisecond, 5 * time.Second
)

// recorder is a simulated sidecar that uses delta xDS, keeps its resources when its stream ends,
// reconnects to the next replica, and records the resources that it receives. It is owned by one
// goroutine.
type recorder struct {
	name      string
	log       *history.Log
	addresses []string
	node      *corev3.Node

	versions map[string]map[string]string // by type and name, of its resources
	clusters map[string]string            // EDS service names, "" for clusters without
	loaded   map[string]bool              // EDS service names that have endpoints
	routes   map[string][]string          // clusters of each RouteConfiguration
	names    map[string]map[string]bool   // subscriptions of EDS and RDS
	dangling map[string]bool
	observed map[string]int // the last generation recorded, by object
}

func newRecorder(name string, log *history.Log) *recorder {
	return &recorder{
		name:     name,
		log:      log,
		versions: map[string]map[string]string{},
		clusters: map[string]string{},
		loaded:   map[string]bool{},
		routes:   map[string][]string{},
		names:    map[string]map[string]bool{api.EndpointType: {}, api.RouteType: {}},
		dangling: map[string]bool{},
		observed: map[string]int{},
	}
}

// record connects a recorder until the test ends. It connects first to the i-th replica.
func (c *chaos) record(t *testing.T, name string, i int) {
	t.Helper()
	r := newRecorder(name, c.log)
	r.node = sidecar.Node(name, "default", fmt.Sprintf("10.9.0.%d", i+1), nil)
	for n := range c.replicas {
		r.addresses = append(r.addresses, c.replicas[(i+n)%len(c.replicas)].settings.XDS)
	}
	c.log.Join(name)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			_ = r.follow(ctx, r.addresses[n%len(r.addresses)]) // why a stream ended is the replica's matter
			select {
			case <-ctx.Done():
			case <-time.After(reconnectAfter):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// follow opens a stream and processes responses until it ends.
func (r *recorder) follow(ctx context.Context, address string) error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(silentFor, cancel)
	defer silent.Stop()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	for _, typeURL := range []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType} {
		names, named := r.names[typeURL]
		if named && len(names) == 0 {
			continue
		}
		request := &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeURL, InitialResourceVersions: r.versions[typeURL], ResourceNamesSubscribe: slices.Sorted(maps.Keys(names)),
		}
		if typeURL == api.ClusterType {
			request.Node = r.node
		}
		if err := stream.Send(request); err != nil {
			return err
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		silent.Stop()
		now := time.Now()
		acknowledge := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.TypeUrl, ResponseNonce: response.Nonce}
		if err := stream.Send(acknowledge); err != nil {
			return err
		}
		for _, request := range r.applyResponse(response, now) {
			if err := stream.Send(request); err != nil {
				return err
			}
		}
	}
}

// applyResponse applies a response, records it, and returns the changes of subscriptions that
// follow from it.
func (r *recorder) applyResponse(
	response *discoveryv3.DeltaDiscoveryResponse, now time.Time,
) []*discoveryv3.DeltaDiscoveryRequest {
	typeURL := response.TypeUrl
	if r.versions[typeURL] == nil {
		r.versions[typeURL] = map[string]string{}
	}
	before := map[string]map[string]bool{
		api.EndpointType: maps.Clone(r.names[api.EndpointType]), api.RouteType: maps.Clone(r.names[api.RouteType]),
	}
	for _, resource := range response.Resources {
		r.versions[typeURL][resource.Name] = resource.Version
		r.apply(resource, typeURL, now)
	}
	for _, name := range response.RemovedResources {
		delete(r.versions[typeURL], name)
		r.remove(typeURL, name)
	}
	r.judge(now)
	var requests []*discoveryv3.DeltaDiscoveryRequest
	for _, t := range []string{api.EndpointType, api.RouteType} {
		request := &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl:                  t,
			ResourceNamesSubscribe:   missing(r.names[t], before[t]),
			ResourceNamesUnsubscribe: missing(before[t], r.names[t]),
		}
		if len(request.ResourceNamesSubscribe)+len(request.ResourceNamesUnsubscribe) > 0 {
			requests = append(requests, request)
		}
	}
	return requests
}

// missing returns the names of a set that another does not have.
func missing(set, other map[string]bool) (list []string) {
	for name := range set {
		if !other[name] {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (r *recorder) apply(resource *discoveryv3.Resource, typeURL string, now time.Time) {
	switch typeURL {
	case api.ClusterType:
		c := new(clusterv3.Cluster)
		if resource.Resource.UnmarshalTo(c) != nil {
			return
		}
		service := ""
		if c.GetType() == clusterv3.Cluster_EDS {
			if service = c.GetEdsClusterConfig().GetServiceName(); service == "" {
				service = c.Name
			}
			r.names[api.EndpointType][service] = true
		}
		r.clusters[resource.Name] = service
	case api.EndpointType:
		a := new(endpointv3.ClusterLoadAssignment)
		if resource.Resource.UnmarshalTo(a) == nil {
			r.applyEndpoints(a, now)
		}
	case api.ListenerType:
		l := new(listenerv3.Listener)
		if resource.Resource.UnmarshalTo(l) == nil {
			for _, name := range routesOf(l) {
				r.names[api.RouteType][name] = true
			}
		}
	case api.RouteType:
		c := new(routev3.RouteConfiguration)
		if resource.Resource.UnmarshalTo(c) == nil {
			r.applyRoutes(c, now)
		}
	}
}

func (r *recorder) remove(typeURL, name string) {
	switch typeURL {
	case api.ClusterType:
		service := r.clusters[name]
		delete(r.clusters, name)
		delete(r.names[api.EndpointType], service)
		delete(r.versions[api.EndpointType], service)
		delete(r.loaded, service)
	case api.RouteType:
		delete(r.routes, name)
	}
}

func (r *recorder) applyEndpoints(a *endpointv3.ClusterLoadAssignment, now time.Time) {
	var addresses []string
	for _, locality := range a.Endpoints {
		for _, e := range locality.LbEndpoints {
			addresses = append(addresses, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	r.viewEndpoints(a.ClusterName, addresses, now)
}

// viewEndpoints records the generation that is in the address of the endpoint.
func (r *recorder) viewEndpoints(cluster string, addresses []string, now time.Time) {
	r.loaded[cluster] = len(addresses) > 0
	host, subset := hostOf(cluster)
	if host == "" || subset != "" {
		return
	}
	for _, address := range addresses {
		if generation, ok := generationOf(address); ok {
			r.observe("endpoints of "+host, generation, now)
		}
	}
}

func (r *recorder) applyRoutes(c *routev3.RouteConfiguration, now time.Time) {
	var clusters []string
	for _, v := range c.VirtualHosts {
		for _, route := range v.Routes {
			clusters = append(clusters, route.GetRoute().GetCluster())
		}
	}
	r.viewRoutes(c.Name, clusters, now)
}

// viewRoutes records the generations that are in the names of subsets.
func (r *recorder) viewRoutes(name string, clusters []string, now time.Time) {
	r.routes[name] = nil
	for _, cluster := range clusters {
		host, subset := hostOf(cluster)
		if host == "" {
			continue
		}
		r.routes[name] = append(r.routes[name], cluster)
		if generation, err := strconv.Atoi(strings.TrimPrefix(subset, "g")); err == nil {
			r.observe("rule of "+host, generation, now)
		}
	}
}

// hostOf returns the host and the subset of a cluster "outbound|80|g7|host-3.mesh", "" for other
// clusters.
func hostOf(cluster string) (host, subset string) {
	parts := strings.Split(cluster, "|")
	if len(parts) != 4 || parts[0] != "outbound" || !strings.HasSuffix(parts[3], ".mesh") {
		return "", ""
	}
	return strings.TrimSuffix(parts[3], ".mesh"), parts[2]
}

// observe records a generation that differs from the last one of the object.
func (r *recorder) observe(object string, generation int, now time.Time) {
	if r.observed[object] == generation {
		return
	}
	r.observed[object] = generation
	r.log.Observe(history.Observation{Proxy: r.name, Object: object, Generation: generation, At: now})
}

// judge records a mixed state, once while it lasts, for each cluster that routes refer to and that
// does not exist or has no endpoints. It reports whether there was one.
func (r *recorder) judge(now time.Time) (mixed bool) {
	dangling := map[string]bool{}
	for _, clusters := range r.routes {
		for _, name := range clusters {
			service, there := r.clusters[name]
			switch {
			case !there:
				dangling[name+" is not there"] = true
			case service != "" && !r.loaded[service]:
				dangling[name+" has no endpoints"] = true
			}
		}
	}
	for what := range dangling {
		if !r.dangling[what] {
			r.log.Mix(history.Mixture{Proxy: r.name, What: "a route leads to cluster " + what, At: now})
			mixed = true
		}
	}
	r.dangling = dangling
	return mixed
}

func routesOf(l *listenerv3.Listener) (names []string) {
	for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		for _, f := range chain.GetFilters() {
			m := new(hcmv3.HttpConnectionManager)
			if f.GetTypedConfig().MessageIs(m) && f.GetTypedConfig().UnmarshalTo(m) == nil && m.GetRds() != nil {
				names = append(names, m.GetRds().GetRouteConfigName())
			}
		}
	}
	return names
}
