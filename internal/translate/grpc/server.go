package grpc

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// serverPrefix is the prefix of the names of servers' listeners, as in
// server_listener_resource_name_template of the bootstrap.
const serverPrefix = "xds.istio.io/grpc/lds/inbound/"

// serverInput is everything that the listener of a server depends on.
type serverInput struct {
	address netip.Addr
	port    uint32
	// mutual requires clients to have certificates of the mesh.
	mutual bool
	policy *authorization.Authorization
	// tokens is set if a RequestAuthentication would have tokens validated, which gRPC does not.
	tokens bool
	from   memo.List[config.Key]
}

// Servers returns the listeners of the ports that gRPC servers serve, or nil without ports. There
// is one for each port and address at which a server may listen. A declared container port needs no
// service: a server must not lose its listener when a service selects other workloads.
//
// gRPC servers cannot accept both TLS and plaintext. They require mutual TLS under STRICT, and
// under PERMISSIVE if proxies call them with it, by the workload's label security.istio.io/tlsMode.
// Without server credentials they accept only plaintext.
func (g *Generator) Servers(v *view.View) []*resource.Resource {
	ports := servedPorts(v)
	if len(ports) == 0 {
		return nil
	}
	modes := snapshot.PeerModes{Mode: security.PeerAuthentication_MutualTLS_DISABLE}
	if v.Key.ServerCredentials != (mesh.Credentials{}) {
		modes = v.Key.PeerModes(v.Snapshot)
	}
	policy := g.authorizations.For(v)
	addresses := listenAddresses(v)
	var list []*resource.Resource
	for _, port := range ports {
		mode := modes.At(port.number)
		s := serverInput{port: port.number,
			policy: policy,
			tokens: v.Key.Policies.Authentication != "",
			mutual: mode == security.PeerAuthentication_MutualTLS_STRICT ||
				mode == security.PeerAuthentication_MutualTLS_PERMISSIVE && v.Key.Proxyless.CalledWithTLS}
		s.from = memo.ListOf(append(port.from, modes.From...))
		for _, s.address = range addresses {
			list = append(list, g.servers.Get(s))
		}
	}
	return list
}

// servedPort is a port that applications serve, with the objects of its service.
type servedPort struct {
	number uint32
	from   []config.Key
}

// servedPorts returns the target ports of the View's own services, then the container ports
// (Key.Proxyless.Ports) without a service, without duplicates. A target port has the objects of the
// first service with it; a container port has none. Invalid container ports are ignored.
func servedPorts(v *view.View) []servedPort {
	var list []servedPort
	for i, in := range v.Inbound {
		if i > 0 && v.Inbound[i-1].TargetPort == in.TargetPort {
			continue // Instances are sorted by target port, and the listener is the same.
		}
		list = append(list, servedPort{in.TargetPort, in.Service.AppendObjects(nil)})
	}
	for text := range strings.SplitSeq(v.Key.Proxyless.Ports, ",") {
		number, err := strconv.ParseUint(text, 10, 16)
		if err == nil && !slices.ContainsFunc(list, func(p servedPort) bool { return p.number == uint32(number) }) {
			list = append(list, servedPort{number: uint32(number)})
		}
	}
	return list
}

// ServersTouched reports whether a change may alter the result of Servers; s is the snapshot after
// the change.
func (g *Generator) ServersTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.IsInboundAffectedBy(d) || g.authorizations.Touched(v, s, d)
}

// listenAddresses returns the addresses at which a server may listen: unspecified and loopback of
// both families, then the workload's own valid addresses, without duplicates.
func listenAddresses(v *view.View) []netip.Addr {
	list := []netip.Addr{
		netip.IPv6Unspecified(), netip.IPv4Unspecified(), netip.IPv6Loopback(),
		netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	}
	for text := range strings.SplitSeq(v.Key.Proxyless.Addresses, ",") {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// serverListener returns the listener of a gRPC server at an address, with the policies that gRPC
// supports and one route that accepts all calls. It requires mutual TLS if in.mutual is set, and
// otherwise accepts plaintext only.
func serverListener(in serverInput) *resource.Resource {
	name := serverPrefix + net.JoinHostPort(in.address.String(), strconv.FormatUint(uint64(in.port), 10))
	chain := &listenerv3.FilterChain{Filters: []*listenerv3.Filter{{
		Name: "inbound-hcm" + strconv.FormatUint(uint64(in.port), 10),
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packAny(&hcmv3.HttpConnectionManager{
			HttpFilters: append(
				reducePolicies(in.policy.HTTP, in.tokens),
				httpFilter(routerFilter, new(routerv3.Router)),
			),
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
				Name: "inbound",
				VirtualHosts: []*routev3.VirtualHost{{Name: "inbound",
					Domains: []string{"*"},
					Routes: []*routev3.Route{{
						Match: &routev3.RouteMatch{
							PathSpecifier: &routev3.RouteMatch_Prefix{},
						}, Action: new(routev3.Route_NonForwardingAction),
					}}}},
			}},
		})},
	}}}
	if in.mutual {
		chain.TransportSocket = tlsSocket(&tlsv3.DownstreamTlsContext{
			CommonTlsContext:         certificates(),
			RequireClientCertificate: wrapperspb.Bool(true),
		})
	}
	from := append([]config.Key{}, in.policy.From...)
	for k := range in.from.All {
		from = append(from, k)
	}
	return encodeResource(name, api.ListenerType, &listenerv3.Listener{
		Name: name, TrafficDirection: corev3.TrafficDirection_INBOUND,
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: in.address.String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: in.port},
		}}},
		FilterChains: []*listenerv3.FilterChain{chain},
	}, from...)
}
