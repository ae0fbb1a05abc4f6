package authorization

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// stage runs the listeners of all workloads in one Envoy: each at its workload's own address, at
// the called ports, so that Envoy finds the original destination as with captured traffic.
// Resources of xDS are inlined, and clusters lead to the servers of the test.
type stage struct {
	t        testing.TB
	secrets  *secrets
	servers  servers
	clusters map[string]*clusterv3.Cluster
	out      *bootstrapv3.Bootstrap_StaticResources
}

// servers are the endpoints of the clusters.
type servers struct{ http, bytes, httpAuthorizer, grpcAuthorizer, nobody netip.AddrPort }

// bootstrap returns Envoy's configuration.
func (s *stage) bootstrap(scenes []*scene) *bootstrapv3.Bootstrap {
	s.out, s.clusters = new(bootstrapv3.Bootstrap_StaticResources), map[string]*clusterv3.Cluster{}
	for _, sc := range scenes {
		called := map[*workload]map[uint16]bool{}
		for _, c := range sc.cases {
			w, port := c.target(s.t)
			if called[w] == nil {
				called[w] = map[uint16]bool{}
			}
			called[w][port] = true
		}
		for _, w := range sc.workloads {
			s.workload(sc, w, slices.Sorted(maps.Keys(called[w])))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.clusters)) {
		s.out.Clusters = append(s.out.Clusters, s.clusters[name])
	}
	s.out.Secrets = s.secrets.all()
	return &bootstrapv3.Bootstrap{Node: &corev3.Node{Id: "policies", Cluster: "policies"}, StaticResources: s.out}
}

func (s *stage) workload(sc *scene, w *workload, ports []uint16) {
	r := sc.resources[w.Name]
	for _, one := range r.Listeners {
		l := decoded(s.t, one, new(listenerv3.Listener))
		own := ports
		switch {
		case !w.Gateway && l.GetName() != "virtualInbound", len(ports) == 0:
			continue
		case w.Gateway:
			own = []uint16{uint16(l.GetAddress().GetSocketAddress().GetPortValue())}
			if !slices.Contains(ports, own[0]) {
				continue
			}
		}
		l.Name = sc.name + "/" + w.Name + "/" + l.GetName()
		l.EnableReusePort = wrapperspb.Bool(false) // another Envoy there is an error, and not one to share with
		l.Address, l.AdditionalAddresses = address(netip.AddrPortFrom(w.Address, own[0])), nil
		for _, p := range own[1:] {
			l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: address(netip.AddrPortFrom(w.Address, p))})
		}
		for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
			s.chain(r, c)
		}
		s.out.Listeners = append(s.out.Listeners, l)
	}
}

func decoded[M proto.Message](t testing.TB, r *resource.Resource, m M) M {
	t.Helper()
	if r == nil {
		t.Fatalf("a resource %T is not there", m)
	}
	if err := proto.Unmarshal(r.Body, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// chain inlines the resources of SDS, RDS and ECDS.
func (s *stage) chain(r *explain.Resources, c *listenerv3.FilterChain) {
	if socket := c.GetTransportSocket(); socket != nil {
		m := new(tlsv3.DownstreamTlsContext)
		if err := socket.GetTypedConfig().UnmarshalTo(m); err != nil {
			s.t.Fatal(err)
		}
		s.secrets.place(m.GetCommonTlsContext())
		socket.ConfigType = &corev3.TransportSocket_TypedConfig{TypedConfig: s.packed(m)}
	}
	for _, f := range c.GetFilters() {
		packed := s.extension(r, f.GetName(), f.GetTypedConfig(), f.GetConfigDiscovery())
		message, err := packed.UnmarshalNew()
		if err != nil {
			s.t.Fatal(err)
		}
		switch m := message.(type) {
		case *tcpv3.TcpProxy:
			if m.GetCluster() != mesh.BlackHoleCluster {
				m.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: "bytes"}
			}
			s.cluster(m.GetCluster())
		case *hcmv3.HttpConnectionManager:
			s.requests(r, m)
		}
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: s.packed(message)}
	}
}

func (s *stage) requests(r *explain.Resources, m *hcmv3.HttpConnectionManager) {
	if name := m.GetRds().GetRouteConfigName(); name != "" {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{
			RouteConfig: decoded(s.t, r.Named(api.RouteType, name), new(routev3.RouteConfiguration)),
		}
	}
	for _, vh := range m.GetRouteConfig().GetVirtualHosts() {
		for _, route := range vh.GetRoutes() {
			s.cluster(route.GetRoute().GetCluster())
		}
	}
	for _, f := range m.GetHttpFilters() {
		packed := s.extension(r, f.GetName(), f.GetTypedConfig(), f.GetConfigDiscovery())
		f.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed}
	}
	for _, one := range r.Clusters {
		s.cluster(one.Name) // filters name them
	}
}

// extension returns a filter's configuration, as if ECDS had brought it.
func (s *stage) extension(r *explain.Resources, name string, own *anypb.Any, discovery *corev3.ExtensionConfigSource) *anypb.Any {
	if discovery == nil {
		return own
	}
	return decoded(s.t, r.Named(api.ExtensionType, name), new(corev3.TypedExtensionConfig)).GetTypedConfig()
}

// cluster returns a cluster for a name: authorizers are recognized by their services' ports.
func (s *stage) cluster(name string) {
	if name == "" || s.clusters[name] != nil {
		return
	}
	c := &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name},
	}
	s.clusters[name] = c
	to := s.servers.http
	switch parsed, _ := mesh.ParseClusterName(name); {
	case name == "bytes":
		to = s.servers.bytes
	case name == mesh.BlackHoleCluster:
		return
	case strings.HasPrefix(string(parsed.Host), "authz-down."):
		to = s.servers.nobody
	case strings.HasPrefix(string(parsed.Host), "authz-http."):
		to = s.servers.httpAuthorizer
	case strings.HasPrefix(string(parsed.Host), "authz-grpc."):
		to = s.servers.grpcAuthorizer
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": s.packed(&upstreamsv3.HttpProtocolOptions{
				UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: new(corev3.Http2ProtocolOptions)},
				}},
			}),
		}
	}
	c.LoadAssignment.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address(to)}},
	}}}}
}

func (s *stage) packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func address(a netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

// start runs the Envoy until the test ends, and returns the file of its access log.
func start(t testing.TB, scenes []*scene, authority *secrets, tokens *tokens) (accessLog string) {
	t.Helper()
	envoy.RequireBinary(t)
	accessLog = filepath.Join(t.TempDir(), "access.log")
	for _, s := range scenes {
		s.generate(t, accessLog)
	}
	s := &stage{t: t, secrets: authority, servers: serve(t)}
	var listening []string
	b := s.bootstrap(scenes)
	b.Admin = &bootstrapv3.Admin{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{},
	}}}}
	for _, l := range b.GetStaticResources().GetListeners() {
		at := l.GetAddress().GetSocketAddress()
		listening = append(listening, fmt.Sprintf("%s:%d", at.GetAddress(), at.GetPortValue()))
	}
	envoy.Start(t, envoy.Options{Bootstrap: envoy.Text(t, b), Args: []string{"--file-flush-interval-msec", "50"}, Ready: envoy.Listening("tcp", listening...)}).AwaitLive()
	return accessLog
}
