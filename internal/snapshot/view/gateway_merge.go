package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// listenAddress is the port, transport protocol and bind address of a gateway listener.
type listenAddress struct {
	port uint32
	bind string
	udp  bool
}

// boundHost is a host that is served at one address.
type boundHost struct {
	listenAddress
	host GatewayHost
}

// gatewayMerge builds a Gateway.
type gatewayMerge struct {
	key       GatewayKey
	settings  *snapshot.Settings
	ports     []gatewayPort
	listeners map[listenAddress]*GatewayListener
	// names maps a listener's server names to the server that has them; hosts does the same for
	// hosts in plain text.
	names map[listenAddress]map[string]*GatewayServer
	hosts map[boundHost]*GatewayServer
	out   *Gateway
}

// mergeGateways returns the listeners, RouteConfigurations and Problems of the servers of Gateways,
// which must be sorted oldest first. If two servers conflict at one address or in a server name,
// the older one wins and the other gets a Problem. A listener for UDP disables HTTP/3 on its port.
// Listeners and Problems are sorted, and Problems are distinct.
func mergeGateways(list []*config.Config, key GatewayKey, settings *snapshot.Settings) *Gateway {
	m := &gatewayMerge{
		key: key, settings: settings, ports: decodeGatewayPorts(key.Ports),
		listeners: map[listenAddress]*GatewayListener{}, names: map[listenAddress]map[string]*GatewayServer{},
		hosts: map[boundHost]*GatewayServer{},
		out:   &Gateway{routes: map[string]*GatewayRoute{}},
	}
	for _, c := range list {
		for i, server := range config.Spec[*networking.Gateway](c).GetServers() {
			m.addServer(newGatewayServer(c, i, server))
		}
	}
	for at, l := range m.listeners {
		m.out.Listeners = append(m.out.Listeners, l)
		m.addSiblings(l)
		if at.udp {
			m.disableQUIC(at)
		}
	}
	slices.SortFunc(m.out.Listeners, compareListeners)
	slices.SortFunc(m.out.Problems, config.Problem.Compare)
	m.out.Problems = slices.Compact(m.out.Problems)
	return m.out
}

// reportForeign adds a Problem for each Gateway of the list, sorted with the others: it selects
// proxies in the namespace that do not serve it.
func (g *Gateway) reportForeign(list []*config.Config, namespace string) {
	for _, c := range list {
		g.Problems = append(g.Problems, config.Problem{
			Code: code.ConflictingGateways, Key: c.Key, Field: "spec.selector", Severity: config.Warning,
			Reason: "selects proxies that are deployed for a Gateway of the Gateway API in namespace " + namespace +
				": Gateways of other namespaces are not served there",
		})
	}
	slices.SortFunc(g.Problems, config.Problem.Compare)
}

// compareListeners orders listeners by port, then address as text, then TCP before UDP.
func compareListeners(a, b *GatewayListener) int {
	udp := 0
	switch {
	case b.UDP && !a.UDP:
		udp = -1
	case a.UDP && !b.UDP:
		udp = 1
	}
	return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Bind, b.Bind), udp)
}

// newGatewayServer returns the server with that index of the Gateway c, not yet at an address. Its
// protocol is mesh.Auto if it is unknown.
func newGatewayServer(c *config.Config, index int, spec *networking.Server) *GatewayServer {
	s := &GatewayServer{Spec: spec, Object: c, Index: index, Gateway: c.Namespace + "/" + c.Name}
	s.Protocol, _ = mesh.ParseProtocol(spec.GetPort().GetProtocol())
	for _, h := range spec.GetHosts() {
		s.Hosts = append(s.Hosts, parseGatewayHost(h, c.Namespace))
	}
	return s
}

// addServer adds s to the listener of the target port of its Service port. It skips s, with a
// Problem, if proxies do not forward its protocol, or cannot listen on the port (canListen), which
// does not apply to Unix sockets. UDP is forwarded only for listeners of the Gateway API. A server
// without port or hosts is ignored without a Problem.
func (m *gatewayMerge) addServer(s *GatewayServer) {
	if s.Spec.GetPort() == nil || len(s.Hosts) == 0 {
		return // reported by validation
	}
	udp := s.Protocol == mesh.UDP && s.IsListener()
	if !s.Protocol.Captured() && !udp {
		m.addProblem(s, "port.protocol",
			fmt.Sprintf("proxies do not forward %s: this server is left out", s.Spec.GetPort().GetProtocol()))
		return
	}
	at := listenAddress{m.targetPort(s.Port(), udp), s.Spec.GetBind(), udp}
	if config.IsSocket(at.bind) || m.canListen(s, at.port) {
		m.addAtAddress(s, at)
	}
}

// targetPort returns the target port of the Service port number of TCP or UDP. If no Service has
// that port, it returns the number itself.
func (m *gatewayMerge) targetPort(number uint32, udp bool) uint32 {
	for _, p := range m.ports {
		if p.number == number && p.udp == udp {
			return p.target
		}
	}
	return number
}

// Ports on which the bootstrap and the agent of every proxy listen, other than those in
// ProxyConfig.
const (
	readinessPort  = 15021
	prometheusPort = 15090
)

// FirstUnprivilegedPort is the lowest port on which a process without privileges can listen.
const FirstUnprivilegedPort = 1024

// canListen reports whether the proxy can listen on the port for server s, and adds a Problem if
// not. It cannot on the proxy's own TCP ports: admin, status, 15021 and 15090. Without privileges
// it cannot below 1024, by TCP or UDP.
func (m *gatewayMerge) canListen(s *GatewayServer, port uint32) bool {
	proxy := m.settings.Mesh.GetDefaultConfig()
	switch {
	case s.Protocol != mesh.UDP && slices.Contains([]uint32{readinessPort, prometheusPort,
		uint32(proxy.GetProxyAdminPort()), uint32(proxy.GetStatusPort())}, port):
		m.addProblem(s, "port.number", fmt.Sprintf("port %d is one of the proxy's own ports: nothing is served there",
			port))
		return false
	case m.key.Unprivileged && port < FirstUnprivilegedPort:
		m.addProblem(
			s,
			"port.number",
			fmt.Sprintf(
				"gateways without privileges cannot listen on port %d: use a Service with a target port of 1024 or above",
				port),
		)
		return false
	default:
		return true
	}
}

// addAtAddress adds s to the listener at one address, which it creates if necessary, and sets
// s.Route. HTTP servers are also added to their RouteConfiguration (addRoute). It drops s, with a
// Problem, if the listener has servers of another kind or is Exclusive, or if no server name is
// left for s. HTTP servers that share hosts with another Gateway are added, with a Problem.
func (m *gatewayMerge) addAtAddress(s *GatewayServer, at listenAddress) {
	sharing := Exclusive
	switch {
	case s.UsesTLS():
		sharing = ByServerName
	case s.Protocol.IsHTTP():
		sharing = ByHost
	}
	l := m.listeners[at]
	switch {
	case l == nil:
	case l.Sharing != sharing, sharing == Exclusive:
		first := l.Servers[0]
		m.addProblem(s, "port", fmt.Sprintf("port %d is served as %s by %s, which takes precedence: this server is ignored",
			s.Port(), first.Spec.GetPort().GetProtocol(), first.Object.Key))
		return
	}
	switch {
	case sharing == ByServerName && !m.reserveServerNames(s, at):
		return
	case sharing == ByHost:
		m.reportSharedHosts(s, at)
	}
	s.Route = gatewayRouteName(s, at)
	if l == nil {
		l = &GatewayListener{Port: at.port, Bind: at.bind, UDP: at.udp, Sharing: sharing}
		m.listeners[at] = l
	}
	l.Servers = append(l.Servers, s)
	m.addRoute(s, l)
}

// reserveServerNames assigns to s the names of its hosts that no older server at the address has,
// sorted. It adds a Problem for each name that is taken or not a valid SNI pattern, and returns
// false if no name is left.
func (m *gatewayMerge) reserveServerNames(s *GatewayServer, at listenAddress) bool {
	names := m.names[at]
	if names == nil {
		names = map[string]*GatewayServer{}
		m.names[at] = names
	}
	for i, h := range s.Hosts {
		name := strings.TrimSuffix(string(h.Host), ".")
		owner := names[name]
		switch {
		case !isServerNamePattern(name):
			m.addProblem(
				s,
				fmt.Sprintf("hosts[%d]", i),
				fmt.Sprintf(
					"%q: the wildcard of a server name must be a whole label at its beginning: connections for it cannot be matched",
					name),
			)
		case owner == nil:
			names[name] = s
			s.ServerNames = append(s.ServerNames, name)
		case owner != s:
			m.addProblem(
				s,
				fmt.Sprintf("hosts[%d]", i),
				fmt.Sprintf("connections on port %d that ask for %q are those of %s, which takes precedence",
					s.Port(), name, owner.Object.Key),
			)
		}
	}
	slices.Sort(s.ServerNames)
	return len(s.ServerNames) > 0
}

// reportSharedHosts adds a Problem for each plain-text host of s that another Gateway serves at the
// same address. It records s in m.hosts for each host that no server there has yet. Routes bound to
// either Gateway apply to a shared host.
func (m *gatewayMerge) reportSharedHosts(s *GatewayServer, at listenAddress) {
	for i, h := range s.Hosts {
		k := boundHost{at, h}
		switch owner := m.hosts[k]; {
		case owner == nil:
			m.hosts[k] = s
		case owner.Object != s.Object:
			m.addProblem(
				s,
				fmt.Sprintf("hosts[%d]", i),
				fmt.Sprintf(
					"requests for %q on port %d are also served for %s, which takes precedence: the routes of both are merged",
					h.Host, s.Port(), owner.Object.Key),
			)
		}
	}
}

// isServerNamePattern reports whether Envoy accepts the name in server_names: a wildcard must be
// the whole first label. An empty name is not accepted.
func isServerNamePattern(name string) bool {
	rest, _ := strings.CutPrefix(name, "*.")
	return name == "*" || name != "" && !strings.Contains(rest, "*")
}

// addProblem adds a Warning about a field of the server s.
func (m *gatewayMerge) addProblem(s *GatewayServer, field, reason string) {
	m.out.Problems = append(m.out.Problems, config.Problem{
		Code: code.ConflictingGateways,
		Key:  s.Object.Key, Field: fmt.Sprintf("spec.servers[%d].%s", s.Index, field), Reason: reason,
		Severity: config.Warning,
	})
}
