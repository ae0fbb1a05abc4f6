package listener

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// listenersOf returns the listeners of a View with inlined extensions, for an Envoy without ECDS.
func listenersOf(t testing.TB, g *Generator, v *view.View) []*listenerv3.Listener {
	t.Helper()
	var out []*listenerv3.Listener
	for _, r := range g.All(v) {
		l := golden.Decode(t, r).(*listenerv3.Listener)
		for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				if f.GetConfigDiscovery() != nil {
					f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: extensionOf(t, g, v, f.GetName())}
				}
				if m := new(hcmv3.HttpConnectionManager); f.GetTypedConfig().MessageIs(m) {
					if err := f.GetTypedConfig().UnmarshalTo(m); err != nil {
						t.Fatal(err)
					}
					for _, h := range m.GetHttpFilters() {
						if h.GetConfigDiscovery() != nil {
							h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: extensionOf(t, g, v, h.GetName())}
						}
					}
					f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(m)}
				}
			}
		}
		out = append(out, l)
	}
	return out
}

// extensionNamed returns an extension of a View, or nil if none has the name.
func extensionNamed(g *Generator, v *view.View, name string) *resource.Resource {
	if r := g.Policies(v, name); r != nil {
		return r
	}
	if r := plugin.NewGenerator().Named(v, name); r != nil {
		return r
	}
	return g.Extension(v, name)
}

func extensionOf(t testing.TB, g *Generator, v *view.View, name string) *anypb.Any {
	t.Helper()
	r := extensionNamed(g, v, name)
	if r == nil {
		t.Fatalf("no extension %q", name)
	}
	e := golden.Decode(t, r).(*corev3.TypedExtensionConfig)
	if e.GetName() != name {
		t.Fatalf("extension %q calls itself %q", name, e.GetName())
	}
	return e.GetTypedConfig()
}

// stage adapts listeners so that a test can call them: bound ones listen on sockets in a directory,
// virtual ones get the original destination by the PROXY protocol, routes answer with their names,
// and each cluster is a server of the test that answers with its name.
type stage struct {
	t        testing.TB
	dir      string
	place    map[string]int
	clusters []*clusterv3.Cluster
	known    map[string]bool
	// authority signs the certificates that are served under any SDS name, and is trusted under
	// any.
	authority *authority
	secrets   []*tlsv3.Secret
	// routed leaves routes unchanged; serve handles connections of all clusters but
	// BlackHoleCluster. If nil, they send the cluster's name.
	routed bool
	serve  func(net.Conn)
	// forwardTo is the cluster to which connection managers with RDS forward all requests. If empty, they answer with the
	// name of their route configuration.
	forwardTo string
	// args are further arguments of Envoy.
	args []string
}

// adminSocket is the file name of the admin interface's socket.
const adminSocket = "admin.sock"

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// startEnvoy runs the listeners in an Envoy until the test ends.
func startEnvoy(t testing.TB, listeners []*listenerv3.Listener) *runningEnvoy {
	t.Helper()
	return (&stage{t: t}).start(listeners)
}

func (s *stage) start(listeners []*listenerv3.Listener) *runningEnvoy {
	t := s.t
	t.Helper()
	envoy.RequireBinary(t)
	s.dir, s.place, s.authority = envoy.SocketDir(t), map[string]int{}, newAuthority("root")
	if s.known == nil {
		s.known = map[string]bool{}
	}
	b := &bootstrapv3.Bootstrap{
		StaticResources: new(bootstrapv3.Bootstrap_StaticResources),
		Admin:           &bootstrapv3.Admin{Address: pipe(filepath.Join(s.dir, adminSocket))},
	}
	for _, l := range listeners {
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, s.listener(l))
	}
	b.StaticResources.Clusters, b.StaticResources.Secrets = s.clusters, s.secrets
	e := &runningEnvoy{dir: s.dir, place: s.place, authority: s.authority}
	var sockets []string
	for name := range s.place {
		sockets = append(sockets, e.socket(name))
	}
	envoy.Start(t, envoy.Options{Bootstrap: envoy.Text(t, b), Args: s.args, Ready: envoy.Listening("unix", sockets...)})
	return e
}

func (s *stage) listener(l *listenerv3.Listener) *listenerv3.Listener {
	l = proto.CloneOf(l)
	if l.GetBindToPort() == nil {
		n := len(s.place)
		s.place[l.GetName()] = n
		l.Address = pipe(filepath.Join(s.dir, fmt.Sprintf("l%d.sock", n)))
		l.AdditionalAddresses = nil
	}
	if l.GetName() == virtualInbound || l.GetName() == virtualOutbound {
		told := &listenerv3.ListenerFilter{Name: "envoy.filters.listener.proxy_protocol", ConfigType: &listenerv3.ListenerFilter_TypedConfig{
			TypedConfig: resource.Pack(new(proxyprotocolv3.ProxyProtocol)),
		}}
		rest := l.GetListenerFilters()
		if len(rest) > 0 && rest[0].GetName() == "envoy.filters.listener.original_dst" {
			rest = rest[1:]
		}
		l.ListenerFilters = append([]*listenerv3.ListenerFilter{told}, rest...)
	}
	for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		s.tls(c.GetTransportSocket())
		for _, f := range c.GetFilters() {
			s.filter(f)
		}
	}
	return l
}

// tls inlines the secrets that a chain names, as if they had been sent by SDS.
func (s *stage) tls(socket *corev3.TransportSocket) {
	if socket == nil {
		return
	}
	context := new(tlsv3.DownstreamTlsContext)
	if err := socket.GetTypedConfig().UnmarshalTo(context); err != nil {
		s.t.Fatal(err)
	}
	common := context.GetCommonTlsContext()
	for _, c := range common.GetTlsCertificateSdsSecretConfigs() {
		s.secret(c, s.authority.serves())
	}
	if v := common.GetCombinedValidationContext(); v != nil {
		v.GetDefaultValidationContext().Crl = nil // the test revokes nothing
		s.secret(v.GetValidationContextSdsSecretConfig(), s.authority.isTrusted())
	}
	socket.ConfigType = &corev3.TransportSocket_TypedConfig{TypedConfig: resource.Pack(context)}
}

func (s *stage) secret(c *tlsv3.SdsSecretConfig, m *tlsv3.Secret) {
	c.SdsConfig = nil // a name without a place is one of the bootstrap's
	if !s.known["secret "+c.GetName()] {
		s.known["secret "+c.GetName()] = true
		m.Name = c.GetName()
		s.secrets = append(s.secrets, m)
	}
}

func (s *stage) filter(f *listenerv3.Filter) {
	m, err := f.GetTypedConfig().UnmarshalNew()
	if err != nil {
		s.t.Fatal(err)
	}
	switch m := m.(type) {
	case *tcpv3.TcpProxy:
		s.cluster(m.GetCluster())
		for _, w := range m.GetWeightedClusters().GetClusters() {
			s.cluster(w.GetName())
		}
	case *hcmv3.HttpConnectionManager:
		if s.forwardTo != "" && m.GetRds() != nil {
			s.cluster(s.forwardTo)
			m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: forwardAll(s.forwardTo)}
			f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(m)}
			return
		}
		if s.routed {
			s.cluster(m.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster())
			return
		}
		says := "routes " + m.GetRds().GetRouteConfigName()
		if m.GetRds() == nil {
			says = "http " + m.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster()
		}
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200, Body: &corev3.DataSource{
					Specifier: &corev3.DataSource_InlineString{InlineString: marker + says + "\n"},
				}}},
			}}}},
		}}
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(m)}
	}
}

// forwardAll returns routes that send every request to the cluster.
func forwardAll(cluster string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		}},
	}}}}}
}

// cluster returns a cluster whose one endpoint sends the cluster's name to each client as soon as
// it connects.
func (s *stage) cluster(name string) {
	if name == "" || s.known[name] {
		return
	}
	s.known[name] = true
	path := filepath.Join(s.dir, fmt.Sprintf("c%d.sock", len(s.known)))
	ln, err := net.Listen("unix", path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if s.serve != nil && name != mesh.BlackHoleCluster {
				go s.serve(conn)
				continue
			}
			_, _ = conn.Write([]byte(marker + "tcp " + name + "\n"))
			time.AfterFunc(patience, func() { conn.Close() })
		}
	}()
	s.clusters = append(s.clusters, &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: pipe(path),
				}},
			}}}},
		},
	})
}
