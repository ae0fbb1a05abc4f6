package view

import (
	"iter"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Gateway is what the Gateways that select the proxies of a View ask for, merged. It is immutable.
type Gateway struct {
	// Listeners are sorted by port, then address.
	Listeners []*GatewayListener
	// Problems are what is not served as it says, and why, as Warnings without Origin.
	Problems []config.Problem

	routes map[string]*GatewayRoute
}

// GatewayListener is a place where a gateway listens, and the servers that share it.
type GatewayListener struct {
	// Port is the gateway's own, to which its Services lead. Bind is an IP or a socket "unix://PATH"; "" is all addresses.
	Port uint32
	Bind string
	// Servers are in the order of age. All have one Sharing; of those in plain text that are not HTTP there is one.
	Servers []*GatewayServer
	Sharing Sharing
	// QUIC says that HTTP/3 is served at the same port of UDP.
	QUIC bool
}

// Sharing is how the servers of one listener are told apart.
type Sharing uint8

const (
	// ByHost is requests in plain text, told apart by the host that they are for.
	ByHost Sharing = iota
	// ByServerName is connections with TLS, told apart by the name that they ask for.
	ByServerName
	// Alone is connections that are not to be told from others.
	Alone
)

// GatewayServer is one server of a Gateway.
type GatewayServer struct {
	Spec *networking.Server
	// Object is the Gateway, Index the server's place in it, and Gateway the name by which VirtualServices have it.
	Object   *config.Config
	Index    int
	Gateway  string
	Protocol mesh.Protocol
	Hosts    []GatewayHost
	// ServerNames are those of Hosts that TLS connections are told apart by, without those that another server has; lower
	// case, sorted. "*" is all.
	ServerNames []string
	// Route is the name of the RouteConfiguration that its requests go by, "" if it has none.
	Route string
}

// GatewayHost is one entry of Server.hosts: which VirtualServices it takes.
type GatewayHost struct {
	// Namespace is where they are, "*" for anywhere.
	Namespace string
	Host      mesh.Hostname
}

// GatewayRoute is one RouteConfiguration of a gateway.
type GatewayRoute struct {
	Name    string
	Servers []*GatewayServer
	// QUIC says that clients are told of HTTP/3.
	QUIC bool
}

// Port is the port number that the server's users know: of the Service.
func (s *GatewayServer) Port() uint32 { return s.Spec.GetPort().GetNumber() }

// Passthrough says that connections are handed on with the TLS that they came with.
func (s *GatewayServer) Passthrough() bool {
	switch s.Spec.GetTls().GetMode() {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return s.TLS()
	default:
		return false
	}
}

// AutoPassthrough says that connections go where the name that they ask for says.
func (s *GatewayServer) AutoPassthrough() bool {
	return s.TLS() && s.Spec.GetTls().GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH
}

// TLS says that connections to the server are TLS. Of one that only redirects they are not.
func (s *GatewayServer) TLS() bool {
	return s.Spec.GetTls() != nil && !s.Redirects()
}

// Redirects says that requests are sent to HTTPS instead of being served.
func (s *GatewayServer) Redirects() bool {
	return s.Protocol.IsHTTP() && s.Spec.GetTls().GetHttpsRedirect()
}

// HTTP says that the gateway reads requests: in plain text, or because it ends TLS of HTTPS.
func (s *GatewayServer) HTTP() bool {
	return s.Protocol.IsHTTP() || s.Protocol == mesh.HTTPS && s.TLS() && !s.Passthrough()
}

// Gateway gives the merged servers of a router; nil for a sidecar. Views of one Key share it while no Gateway changes.
func (v *View) Gateway() *Gateway {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	type key struct{ GatewayKey }
	return snapshot.Derive(v.Snapshot.GatewaysDerived(), key{v.Key.Gateway}, func() *Gateway {
		return mergedGateway(v.Snapshot.Gateways(v.Key.Gateway.Names), v.Key.Gateway, v.Settings)
	})
}

// Route finds a RouteConfiguration by name, nil if the gateway has none of it.
func (g *Gateway) Route(name string) *GatewayRoute { return g.routes[name] }

// Same says whether two RouteConfigurations serve the same servers.
func (r *GatewayRoute) Same(o *GatewayRoute) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.QUIC == o.QUIC && slices.EqualFunc(r.Servers, o.Servers, func(a, b *GatewayServer) bool { return a.Object == b.Object && a.Index == b.Index })
}

// VirtualServicesOf gives the VirtualServices that are bound to a Gateway ("namespace/name") and that the View sees: those
// exported to their own namespace only, then the others, each the oldest first.
func (v *View) VirtualServicesOf(gateway string) []*snapshot.VirtualService {
	type key struct{ namespace string }
	return snapshot.Derive(v.Snapshot.Visibility, key{v.Key.Namespace}, func() map[string][]*snapshot.VirtualService {
		private, public := map[string][]*snapshot.VirtualService{}, map[string][]*snapshot.VirtualService{}
		for _, vs := range v.Snapshot.VirtualServices() {
			if len(vs.Hosts) == 0 || !vs.VisibleTo(v.Key.Namespace) {
				continue
			}
			to := public
			if vs.Private() {
				to = private
			}
			for i, g := range vs.Gateways {
				if g != snapshot.MeshGateway && !slices.Contains(vs.Gateways[:i], g) {
					to[g] = append(to[g], vs)
				}
			}
		}
		for g, list := range public {
			private[g] = append(private[g], list...)
		}
		return private
	})[gateway]
}

// Takes gives the hosts of a VirtualService that the server serves: what its own hosts and the VirtualService's have in common,
// each once, in the order of the VirtualService.
func (s *GatewayServer) Takes(vs *snapshot.VirtualService) []mesh.Hostname {
	var list []mesh.Hostname
	add := func(h mesh.Hostname) {
		if !slices.Contains(list, h) {
			list = append(list, h)
		}
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

// Binds says whether the server serves any host of a VirtualService.
func (s *GatewayServer) Binds(vs *snapshot.VirtualService) bool { return len(s.Takes(vs)) > 0 }

// touchesGateway says whether a change of the object may have altered what a router serves.
func (v *View) touchesGateway(k config.Key) bool {
	return k.Kind == api.Gateway && v.Key.Gateway.Names.Has(k)
}

// gatewayHost reads one entry of Server.hosts of a Gateway in that namespace: "host", "*/host", "./host", "namespace/host".
func gatewayHost(text, own string) GatewayHost {
	namespace, host, qualified := strings.Cut(text, "/")
	switch {
	case !qualified:
		namespace, host = "*", text
	case namespace == ".":
		namespace = own
	}
	return GatewayHost{namespace, mesh.Hostname(strings.ToLower(host))}
}

// SNIClusters gives the clusters to which a server of mode AUTO_PASSTHROUGH hands connections on: of all services of the mesh
// that the View sees and that have one of its hosts, for each port and each subset.
func (s *GatewayServer) SNIClusters(v *View) iter.Seq[mesh.ClusterName] {
	return func(yield func(mesh.ClusterName) bool) {
		for _, svc := range v.Services {
			if !s.autoPasses(svc) {
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

// autoPasses says whether a service is one of them. The server name of a wildcard's cluster would be none that anybody can match.
func (s *GatewayServer) autoPasses(svc *mesh.Service) bool {
	return !svc.MeshExternal && !svc.Host.IsWildcard() && svc.Resolution != mesh.Alias && slices.ContainsFunc(s.ServerNames, func(n string) bool {
		return mesh.Hostname(n).Covers(svc.Host)
	})
}

// clusterNames gives the clusters of a service: for each port that is captured that of the whole host and those of subsets.
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
				if !yield(mesh.ClusterName{Direction: mesh.Outbound, Port: port.Number, Subset: subset, Host: svc.Host}) {
					return
				}
			}
		}
	}
}
