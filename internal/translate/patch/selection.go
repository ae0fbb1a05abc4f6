package patch

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// set is the patches in one list of snapshot.PatchNames, in its order.
type set struct {
	patches []*patch
	values  patchValues

	pass  *Pass
	mu    sync.RWMutex
	lists map[string]*list // by the indexes of their patches
}

// choose returns the list of the patches for which wanted returns true, or nil if there are none.
// Equal selections have the same pointer while it is in use.
func (s *set) choose(wanted func(p *patch) bool) *list {
	var mask [32]byte // enough for 256 patches on the stack
	chosen := mask[:0]
	for i, p := range s.patches {
		if wanted(p) {
			chosen = binary.AppendUvarint(chosen, uint64(i))
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	s.mu.RLock()
	l := s.lists[string(chosen)]
	s.mu.RUnlock()
	if l != nil {
		return l
	}
	l = s.pass.list(s, chosen)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[string(chosen)] = l
	return l
}

// patchValues are the encoded values of patches. A name that none of them contains can only be
// where it was before patching.
type patchValues [][]byte

// valuesOf returns the encoded values of patches, without empty ones.
func valuesOf(patches []*patch) patchValues {
	var b patchValues
	for _, p := range patches {
		if len(p.encoded) > 0 {
			b = append(b, p.encoded)
		}
	}
	return b
}

// mayHave reports whether a name may occur in an encoded message while it is patched: body contains
// it, or the value of a patch does. It returns true for "".
func (b patchValues) mayHave(body []byte, name string) bool {
	n := []byte(name)
	return len(n) == 0 || bytes.Contains(body, n) ||
		slices.ContainsFunc(b, func(v []byte) bool { return bytes.Contains(v, n) })
}

// inContext reports whether the patch applies to a context: to any, or exactly to c.
func (p *patch) inContext(c patchContext) bool {
	return p.context == networking.EnvoyFilter_ANY || p.context == c
}

// forCluster returns the patches that match a cluster, or nil if there are none. If the cluster
// belongs to no service, only matches by name, or without service, subset and port, include it.
// Clusters of AUTO_PASSTHROUGH gateways belong to the service in their server name. Patches that
// add clusters are not among them.
func (s *set) forCluster(v *view.View, r *resource.Resource) *list {
	name, err := mesh.ParseClusterName(r.Name)
	if err != nil {
		name, err = mesh.ParseSNI(r.Name)
	}
	side := contextOf(v, r.Name == mesh.InboundPassthroughCluster || name.Direction == mesh.Inbound)
	return s.choose(func(p *patch) bool {
		if p.adds() || !p.inContext(side) {
			return false
		}
		m := p.cluster
		switch {
		case m == nil:
			return true
		case m.GetName() != "":
			return m.GetName() == r.Name
		case err != nil:
			return m.GetSubset() == "" && m.GetService() == "" && m.GetPortNumber() == 0
		}
		return (m.GetPortNumber() == 0 || m.GetPortNumber() == name.Port) &&
			(m.GetSubset() == "" || m.GetSubset() == name.Subset) &&
			(m.GetService() == "" || servedBy(v, name, m.GetService()))
	})
}

// contextOf returns the patch context of a View's proxies: GATEWAY unless they are sidecars,
// otherwise of the inbound or outbound side.
func contextOf(v *view.View, inbound bool) patchContext {
	switch {
	case v.Key.Type != mesh.SidecarProxy:
		return networking.EnvoyFilter_GATEWAY
	case inbound:
		return networking.EnvoyFilter_SIDECAR_INBOUND
	default:
		return networking.EnvoyFilter_SIDECAR_OUTBOUND
	}
}

// servedBy reports whether the cluster name belongs to the host service. Names of inbound clusters
// contain no service: they belong to all services that the workload serves on the port.
func servedBy(v *view.View, name mesh.ClusterName, service string) bool {
	if name.Direction != mesh.Inbound {
		return string(name.Host) == service
	}
	return slices.ContainsFunc(v.Inbound, func(i view.Instance) bool {
		return i.TargetPort == name.Port && string(i.Service.Host) == service
	})
}

// Listeners of captured connections. Their filter chains have the ports that other listeners have
// themselves.
const (
	virtualInbound  = "virtualInbound"
	virtualOutbound = "virtualOutbound"
)

// connectionManager occurs in every encoded HTTP connection manager.
const connectionManager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

// forListener returns the patches that may match a listener or something in it, or nil if there are
// none. Additions of listeners are left out, and HTTP filters and routes if it has no connection
// manager. It compares names only, so a returned patch may still not match.
func (s *set) forListener(v *view.View, r *resource.Resource) *list {
	head := headOf(r.Body)
	side, port := contextOf(v, head.inbound), head.port()
	return s.choose(func(p *patch) bool {
		if !p.inContext(side) || p.adds() && p.applyTo == networking.EnvoyFilter_LISTENER {
			return false
		}
		switch p.applyTo {
		case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST,
			networking.EnvoyFilter_HTTP_ROUTE:
			return s.values.mayHave(r.Body, connectionManager) // for inline routes
		case networking.EnvoyFilter_HTTP_FILTER:
			if !s.values.mayHave(r.Body, connectionManager) {
				return false
			}
		}
		return p.matchesListener(r.Name, port) && s.mayHaveMatched(r.Body, p)
	})
}

// matchesListener reports whether the patch's match includes the listener with a name and port. In
// listeners of captured connections, the port of the match is compared with chains instead, unless
// the patch is of the listener itself. Without a name or port, the match includes every listener.
func (p *patch) matchesListener(name string, port uint32) bool {
	m := p.listener
	if m.GetName() != "" && m.GetName() != name {
		return false
	}
	if m.GetPortNumber() == 0 ||
		p.applyTo != networking.EnvoyFilter_LISTENER && (name == virtualInbound || name == virtualOutbound) {
		return true
	}
	return m.GetPortNumber() == port
}

// mayHaveMatched reports whether all names in the patch's match of a listener's parts may occur in
// the encoded listener body.
func (s *set) mayHaveMatched(body []byte, p *patch) bool {
	chain := p.listener.GetFilterChain()
	for _, name := range []string{
		chain.GetName(), chain.GetSni(), p.networkFilter(), p.httpFilter(),
		p.listener.GetListenerFilter(),
	} {
		if !s.values.mayHave(body, name) {
			return false
		}
	}
	return true
}

// forRoutes returns the patches that may match something in a RouteConfiguration that comes by RDS,
// or nil if there are none.
func (s *set) forRoutes(v *view.View, r *resource.Resource) *list {
	side, ports := contextOf(v, false), gatewayPorts(v, r.Name)
	return s.choose(func(p *patch) bool {
		if !p.inContext(side) || !p.matchesRoutes(r.Name, side, ports) {
			return false
		}
		host := p.route.GetVhost()
		for _, name := range []string{host.GetName(), host.GetDomainName(), host.GetRoute().GetName()} {
			if !s.values.mayHave(r.Body, name) {
				return false
			}
		}
		return true
	})
}

// gatewayPorts returns the ports of the Gateways' servers that share the RouteConfiguration with a
// name, with duplicates. They are the ports of Services, while the name may have the port at which
// the proxy listens. It returns nil for other proxies than routers, and if no server has it.
func gatewayPorts(v *view.View, name string) (ports []uint32) {
	g := v.Gateway()
	if g == nil {
		return nil
	}
	if r := g.RouteByName(name); r != nil {
		for _, s := range r.Servers {
			ports = append(ports, s.Port())
		}
	}
	return ports
}

// matchesRoutes reports whether the patch's match includes the RouteConfiguration with a name, by
// name and port. The port is compared with ports (gatewayPorts), or if there are none, with that in
// the name. If side is GATEWAY, it also compares the port's name and the Gateway. Conditions that
// are not set match any name.
func (p *patch) matchesRoutes(name string, side patchContext, ports []uint32) bool {
	m := p.route
	if m.GetName() != "" && m.GetName() != name {
		return false
	}
	if m.GetPortNumber() == 0 && m.GetPortName() == "" && m.GetGateway() == "" {
		return true
	}
	port, portName, gateway := parseRoutesName(name)
	if len(ports) == 0 {
		ports = []uint32{port}
	}
	if m.GetPortNumber() != 0 && !slices.Contains(ports, m.GetPortNumber()) {
		return false
	}
	if side != networking.EnvoyFilter_GATEWAY { // The other two apply only to gateways.
		return true
	}
	return (m.GetPortName() == "" || m.GetPortName() == portName) && (m.GetGateway() == "" || m.GetGateway() == gateway)
}

// parseRoutesName parses the name of a RouteConfiguration: "9080" of a sidecar, "inbound|9080||" of
// an inbound listener, "http.8080" and "https.8443.port-name.gateway-name.namespace" of a gateway.
// gateway is "namespace/name". Parts that the name does not have are zero. So is the port of a
// sidecar's "host:9080", as in Istio.
func parseRoutesName(name string) (port uint32, portName, gateway string) {
	if c, err := mesh.ParseClusterName(name); err == nil {
		return c.Port, "", ""
	}
	parts := strings.SplitN(name, ".", 5)
	switch {
	case parts[0] == "http" && len(parts) > 1:
		return parseNumber(parts[1]), "", ""
	case parts[0] == "https" && len(parts) == 5:
		return parseNumber(parts[1]), parts[2], parts[4] + "/" + parts[3]
	default:
		return parseNumber(name), "", ""
	}
}

// parseNumber parses a port number, and returns 0 if it is invalid.
func parseNumber(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return uint32(n)
}
