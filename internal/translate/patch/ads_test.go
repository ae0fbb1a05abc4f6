package patch

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// patience is the timeout for an answer of Envoy.
const patience = 10 * time.Second

// subject is a real Envoy on one delta ADS stream of the test. It records which resources Envoy
// accepts and rejects.
type subject struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t     testing.TB
	dir   string // of the sockets of its listeners
	ended <-chan struct{}

	requests chan *discoveryv3.DeltaDiscoveryRequest
	stream   chan discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer

	to       discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	nonces   int
	named    map[string]map[string]*resource.Resource // resources that Envoy can request by name
	wanted   map[string]bool                          // requested resources: type URL and name
	refusals []string
}

// startSubject runs an Envoy until the test ends.
func startSubject(t testing.TB) *subject {
	t.Helper()
	envoy.RequireBinary(t)
	dir := envoy.SocketDir(t)
	s := &subject{
		t: t, dir: dir,
		requests: make(
			chan *discoveryv3.DeltaDiscoveryRequest,
			1000,
		), stream: make(chan discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer, 1),
		named: map[string]map[string]*resource.Resource{}, wanted: map[string]bool{},
	}
	ln, err := net.Listen("unix", filepath.Join(dir, "ads.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, s)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
	s.ended = envoy.Start(t, envoy.Options{Bootstrap: s.bootstrap(ln.Addr().String())}).Ended()
	select {
	case s.to = <-s.stream:
	case <-s.ended:
		t.Fatal("envoy ended")
	case <-time.After(patience):
		t.Fatal("envoy opens no stream")
	}
	return s
}

func (s *subject) bootstrap(socket string) []byte {
	js, err := yaml.YAMLToJSON([]byte(`
node: {id: sidecar~10.9.9.9~client.default~default.svc.cluster.local, cluster: client}
dynamic_resources:
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, set_node_on_first_message_only: true, grpc_services: [{envoy_grpc: {cluster_name: xds-grpc}}]}
  cds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
  lds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
static_resources:
  clusters:
  - name: xds-grpc
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: xds-grpc, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: "` + socket + `"}}}}]}]}
`))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := protojson.Unmarshal(js, new(bootstrapv3.Bootstrap)); err != nil {
		s.t.Fatal(err)
	}
	return js
}

// DeltaAggregatedResources is the one stream of the Envoy.
func (s *subject) DeltaAggregatedResources(
	to discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	s.stream <- to
	for {
		r, err := to.Recv()
		if err != nil {
			return nil //nolint:nilerr // Envoy has ended, which the test notices
		}
		s.requests <- r
	}
}

// send sends a response and returns its nonce.
func (s *subject) send(typeURL string, updated []*resource.Resource, removed []string) string {
	s.nonces++
	r := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl:           typeURL,
		Nonce:             fmt.Sprint(s.nonces),
		RemovedResources:  removed,
		SystemVersionInfo: fmt.Sprint(s.nonces),
	}
	for _, x := range updated {
		r.Resources = append(r.Resources, &discoveryv3.Resource{
			Name: x.Name, Version: x.Version, Resource: &anypb.Any{TypeUrl: x.TypeURL, Value: s.staged(x).Body},
		})
	}
	if err := s.to.Send(r); err != nil {
		s.t.Fatalf("send: %v", err)
	}
	return r.Nonce
}

// staged returns the resource fit for a test: the listeners of captured connections listen on sockets
// in a directory.
func (s *subject) staged(r *resource.Resource) *resource.Resource {
	if r.Name != virtualInbound && r.Name != virtualOutbound {
		return r
	}
	l, ok := golden.Decode(s.t, r).(*listenerv3.Listener)
	if !ok || l.GetAddress().GetSocketAddress() == nil {
		return r
	}
	l.Address, l.AdditionalAddresses = pipe(filepath.Join(s.dir, r.Name)), nil
	body, err := proto.Marshal(l)
	if err != nil {
		s.t.Fatal(err)
	}
	return resource.FromBytes(r.Name, r.TypeURL, body)
}

// change sends the differences between two sets of resources, and returns the rejections.
func (s *subject) change(from, to map[string]*resource.Set) []string {
	s.t.Helper()
	s.named = map[string]map[string]*resource.Resource{}
	for _, set := range to {
		for _, r := range set.List() {
			s.offer(r)
		}
	}
	var refused []string
	for _, typeURL := range pushOrder() {
		refused = append(refused, s.push(typeURL, resource.Compare(from[typeURL], to[typeURL]))...)
	}
	return refused
}

// push sends a change of one type and waits until Envoy has answered it and its follow-up requests.
// It returns the rejections.
func (s *subject) push(typeURL string, d resource.Diff) []string {
	s.t.Helper()
	if d.Empty() {
		return nil
	}
	s.refusals = nil
	pending := map[string]bool{}
	switch typeURL {
	case api.RouteType, api.ExtensionType:
		var asked []*resource.Resource
		for _, r := range d.Updated {
			if s.wanted[typeURL+r.Name] {
				asked = append(asked, r)
			}
		}
		if len(asked) == 0 {
			return nil
		}
		pending[s.send(typeURL, asked, nil)] = true
	default:
		pending[s.send(typeURL, d.Updated, d.Removed)] = true
	}
	if typeURL == api.ClusterType { // changed EDS clusters wait for it unasked
		var assignments []*resource.Resource
		for _, r := range d.Updated {
			if a := s.assignment(r.Name); a != nil && s.wanted[api.EndpointType+r.Name] {
				assignments = append(assignments, a)
			}
		}
		if len(assignments) > 0 {
			pending[s.send(api.EndpointType, assignments, nil)] = true
		}
	}
	s.wait(pending)
	return s.refusals
}

// offer stores the resources that Envoy can request by name.
func (s *subject) offer(r *resource.Resource) {
	if s.named[r.TypeURL] == nil {
		s.named[r.TypeURL] = map[string]*resource.Resource{}
	}
	s.named[r.TypeURL][r.Name] = r
}

// assignment returns no endpoints for a cluster, if it is one of EDS.
func (s *subject) assignment(name string) *resource.Resource {
	c := new(clusterv3.Cluster)
	r := s.named[api.ClusterType][name]
	if r == nil || proto.Unmarshal(r.Body, c) != nil || c.GetType() != clusterv3.Cluster_EDS {
		return nil
	}
	a, err := resource.Encode(name, api.EndpointType, &endpointv3.ClusterLoadAssignment{ClusterName: name})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// wait takes requests until all pending responses are answered. Subscriptions are answered as they
// come.
func (s *subject) wait(pending map[string]bool) {
	s.t.Helper()
	deadline := time.After(patience)
	for len(pending) > 0 {
		select {
		case r := <-s.requests:
			if n := s.handleRequest(r); n != "" {
				pending[n] = true
			}
			delete(pending, r.GetResponseNonce())
		case <-s.ended:
			s.t.Fatal("envoy ended")
		case <-deadline:
			s.t.Fatalf("envoy does not answer %v", pending)
		}
	}
}

// handleRequest processes a request, and returns the nonce of the response that it answers.
func (s *subject) handleRequest(r *discoveryv3.DeltaDiscoveryRequest) string {
	if e := r.GetErrorDetail(); e != nil {
		s.refusals = append(s.refusals, api.ShortType(r.GetTypeUrl())+": "+e.GetMessage())
	}
	var found []*resource.Resource
	for _, name := range r.GetResourceNamesSubscribe() {
		s.wanted[r.GetTypeUrl()+name] = true
		if r.GetTypeUrl() == api.EndpointType {
			a, err := resource.Encode(name, api.EndpointType, &endpointv3.ClusterLoadAssignment{ClusterName: name})
			if err != nil {
				s.t.Fatal(err)
			}
			found = append(found, a)
		} else if x := s.named[r.GetTypeUrl()][name]; x != nil {
			found = append(found, x)
		}
	}
	for _, name := range r.GetResourceNamesUnsubscribe() {
		delete(s.wanted, r.GetTypeUrl()+name)
	}
	if len(found) == 0 {
		return ""
	}
	return s.send(r.GetTypeUrl(), found, nil)
}
