package view

import (
	"iter"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Gateway is the merged configuration of all Gateways that select the proxies of a View. It is
// immutable.
type Gateway struct {
	// Listeners are sorted by port, then address.
	Listeners []*GatewayListener
	// Problems are Warnings without Origin for servers and hosts that are not served as configured.
	Problems []config.Problem

	routes map[string]*GatewayRoute
}

// GatewayListener is one address on which a gateway listens, with the servers that share it.
type GatewayListener struct {
	// Port is the port on which the proxy listens: the target port of its Services. Bind is an IP
	// address or a socket "unix://PATH"; "" listens on all addresses.
	Port uint32
	Bind string
	// Servers are ordered by the age of their Gateways. All have the same Sharing. With Exclusive
	// there is only one.
	Servers []*GatewayServer
	Sharing Sharing
	// QUIC reports whether HTTP/3 is also served, on the same UDP port.
	QUIC bool
	// UDP is set for a UDP port that forwards datagrams. Its only server is a listener of the
	// Gateway API, and no other listener of the port has QUIC.
	UDP bool
}

// Sharing is how a listener selects one of its servers.
type Sharing uint8

const (
	// ByHost selects the server of a plain-text request by its host.
	ByHost Sharing = iota
	// ByServerName selects the server of a TLS connection by its server name (SNI).
	ByServerName
	// Exclusive allows a single server, because its connections carry no name.
	Exclusive
)

// GatewayServer is one entry of Gateway.servers, at one address.
type GatewayServer struct {
	Spec *networking.Server
	// Object is the Gateway and Index the position in its servers. Gateway is the "namespace/name"
	// by which VirtualServices refer to it.
	Object   *config.Config
	Index    int
	Gateway  string
	Protocol mesh.Protocol
	Hosts    []GatewayHost
	// ServerNames are the hosts that select this server by SNI: Hosts without the names that an
	// older server of the same address has. They are in lower case and sorted; "*" matches all.
	ServerNames []string
	// Route is the name of its RouteConfiguration, or "" if it does not serve HTTP.
	Route string
}

// GatewayHost is one entry of Server.hosts. It limits which hosts of VirtualServices are
// served.
type GatewayHost struct {
	// Namespace is the required namespace of the VirtualServices; "*" allows all.
	Namespace string
	Host      mesh.Hostname
}

// GatewayRoute is one RouteConfiguration of a gateway.
type GatewayRoute struct {
	Name    string
	Servers []*GatewayServer
	// Siblings are the other servers of the listener that serve requests, if they are selected by
	// server name and are listeners of the Gateway API.
	Siblings []*GatewayServer
	// QUIC reports whether responses advertise HTTP/3 (alt-svc).
	QUIC bool
}

// Port returns the port number in the Gateway, which is the port of the Service and not the port on
// which the proxy listens.
func (s *GatewayServer) Port() uint32 { return s.Spec.GetPort().GetNumber() }

// IsListener reports whether the server is a listener of the Gateway API with one host. It returns
// false for servers of Istio's Gateways, and for any server with no or several hosts.
func (s *GatewayServer) IsListener() bool {
	return s.Object.Extension != nil && s.Object.Extension.Gateway != nil && len(s.Hosts) == 1
}

// IsPassthrough reports whether the server forwards TLS connections without terminating them
// (PASSTHROUGH or AUTO_PASSTHROUGH). It returns false if the server does not use TLS.
func (s *GatewayServer) IsPassthrough() bool {
	switch s.Spec.GetTls().GetMode() {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return s.UsesTLS()
	default:
		return false
	}
}

// IsAutoPassthrough reports whether the server forwards TLS connections to the cluster that their
// SNI names (mode AUTO_PASSTHROUGH).
func (s *GatewayServer) IsAutoPassthrough() bool {
	return s.UsesTLS() && s.Spec.GetTls().GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH
}

// UsesTLS reports whether connections to the server are TLS, terminated or not. It returns false
// for a server that only redirects to HTTPS.
func (s *GatewayServer) UsesTLS() bool {
	return s.Spec.GetTls() != nil && !s.RedirectsToHTTPS()
}

// RedirectsToHTTPS reports whether the server answers all requests with a redirect to HTTPS
// (httpsRedirect). Only servers of plain HTTP do.
func (s *GatewayServer) RedirectsToHTTPS() bool {
	return s.Protocol.IsHTTP() && s.Spec.GetTls().GetHttpsRedirect()
}

// ServesHTTP reports whether the gateway parses requests: the server is plain HTTP, or HTTPS whose
// TLS the gateway terminates.
func (s *GatewayServer) ServesHTTP() bool {
	return s.Protocol.IsHTTP() || s.Protocol == mesh.HTTPS && s.UsesTLS() && !s.IsPassthrough()
}

// Gateway returns the merged servers of a router, or nil for other proxies. The result is cached
// until a Gateway or the settings change, and shared by all Views with the same Gateways and
// GatewayKey.
func (v *View) Gateway() *Gateway {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	type key struct {
		names   snapshot.GatewayNames
		gateway GatewayKey
	}
	return snapshot.Derive(v.Snapshot.GatewaysDerived(), key{v.Key.Gateways, v.Key.Gateway}, func() *Gateway {
		g := mergeGateways(v.Snapshot.Gateways(v.Key.Gateways), v.Key.Gateway, v.Settings)
		g.reportForeign(v.Snapshot.ForeignGateways(v.Key.Gateways), v.Key.Namespace)
		return g
	})
}

// RouteByName returns the RouteConfiguration of that name, or nil if no server uses it.
func (g *Gateway) RouteByName(name string) *GatewayRoute { return g.routes[name] }

// HasSameServers reports whether both RouteConfigurations have the same servers and advertise
// HTTP/3 alike. Either may be nil. Servers and siblings are compared by object and index, in their
// order.
func (r *GatewayRoute) HasSameServers(o *GatewayRoute) bool {
	if r == nil || o == nil {
		return r == o
	}
	same := func(a, b *GatewayServer) bool { return a.Object == b.Object && a.Index == b.Index }
	return r.QUIC == o.QUIC && slices.EqualFunc(r.Servers, o.Servers, same) &&
		slices.EqualFunc(r.Siblings, o.Siblings, same)
}

// VirtualServicesOf returns the VirtualServices that are bound to a Gateway ("namespace/name") and
// visible to the View, or nil. Delegates are left out. They are sorted by ExportRank and then the
// oldest first.
func (v *View) VirtualServicesOf(gateway string) []*snapshot.VirtualService {
	type key struct{ namespace string }
	return snapshot.Derive(v.Snapshot.Visibility, key{v.Key.Namespace}, func() map[string][]*snapshot.VirtualService {
		bound := map[string][]*snapshot.VirtualService{}
		for _, vs := range v.Snapshot.VirtualServices() {
			if len(vs.Hosts) == 0 || !vs.IsVisibleTo(v.Key.Namespace) {
				continue
			}
			for i, g := range vs.Gateways {
				if g != snapshot.MeshGateway && !slices.Contains(vs.Gateways[:i], g) {
					bound[g] = append(bound[g], vs)
				}
			}
		}
		for _, list := range bound {
			sortByExport(list)
		}
		return bound
	})[gateway]
}

// ServedHosts returns the hosts of vs that the server serves: the intersection of the server's
// hosts and the hosts of vs, without duplicates, in the order of vs. Of a wildcard and a host that
// it covers, it has the host. A server host with a namespace matches only VirtualServices of that
// namespace. A listener of the Gateway API serves none of a VirtualService that it does not permit.
func (s *GatewayServer) ServedHosts(vs *snapshot.VirtualService) []mesh.Hostname {
	var list []mesh.Hostname
	add := func(h mesh.Hostname) {
		if !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	if x := s.Object.Extension; x != nil && !x.Gateway.PermitsRoute(vs.Config) {
		return nil
	}
	for _, want := range vs.Hosts {
		for _, have := range s.Hosts {
			switch {
			case have.Namespace != "*" && have.Namespace != vs.Config.Namespace:
			case have.Host.Covers(want):
				add(want)
			case want.Covers(have.Host):
				add(have.Host)
			}
		}
	}
	return list
}

// ServesHostOf reports whether the server serves at least one host of vs.
func (s *GatewayServer) ServesHostOf(vs *snapshot.VirtualService) bool {
	return len(s.ServedHosts(vs)) > 0
}

// parseGatewayHost parses one entry of Server.hosts of a Gateway in namespace own: "host",
// "*/host", "./host" or "namespace/host". The host becomes lower case. A missing namespace becomes
// "*", and "." becomes own.
func parseGatewayHost(text, own string) GatewayHost {
	namespace, host, qualified := strings.Cut(text, "/")
	switch {
	case !qualified:
		namespace, host = "*", text
	case namespace == ".":
		namespace = own
	}
	return GatewayHost{namespace, mesh.Hostname(strings.ToLower(host))}
}

// SNIClusters returns the clusters to which an AUTO_PASSTHROUGH server forwards connections: one
// for each captured port and subset of every visible service whose host one of s.ServerNames covers
// (clusterNames). Services outside the mesh, wildcard hosts and aliases are left out.
func (s *GatewayServer) SNIClusters(v *View) iter.Seq[mesh.ClusterName] {
	return func(yield func(mesh.ClusterName) bool) {
		for _, svc := range v.Services {
			if !s.isPassthroughTarget(svc) {
				continue
			}
			for n := range v.clusterNames(svc) {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// isPassthroughTarget reports whether SNIClusters includes the service: one of s.ServerNames covers
// its host. Services outside the mesh and aliases are excluded, and wildcard hosts: no client could
// send a matching SNI.
func (s *GatewayServer) isPassthroughTarget(svc *mesh.Service) bool {
	return !svc.MeshExternal && !svc.Host.IsWildcard() && svc.Resolution != mesh.Alias &&
		slices.ContainsFunc(s.ServerNames, func(n string) bool {
			return mesh.Hostname(n).Covers(svc.Host)
		})
}

// clusterNames returns the outbound clusters of a service: for each port whose protocol proxies
// capture, the cluster of the whole service and one per subset of its DestinationRule.
func (v *View) clusterNames(svc *mesh.Service) iter.Seq[mesh.ClusterName] {
	return func(yield func(mesh.ClusterName) bool) {
		subsets := []string{""}
		if rule := v.DestinationRule(svc.Host); rule != nil {
			for _, sub := range rule.Spec.GetSubsets() {
				if !slices.Contains(subsets, sub.GetName()) {
					subsets = append(subsets, sub.GetName())
				}
			}
		}
		for _, port := range svc.Ports {
			if !port.Protocol.Captured() {
				continue
			}
			for _, subset := range subsets {
				name := mesh.ClusterName{Direction: mesh.Outbound, Port: port.Number, Subset: subset, Host: svc.Host}
				if !yield(name) {
					return
				}
			}
		}
	}
}
