package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// gatewayPlace is where a listener of a gateway is.
type gatewayPlace struct {
	port uint32
	bind string
}

// sharedHost is a host of a place.
type sharedHost struct {
	gatewayPlace
	host GatewayHost
}

// gatewayMerge is a Gateway in the making.
type gatewayMerge struct {
	key       GatewayKey
	settings  *snapshot.Settings
	ports     []gatewayPort
	listeners map[gatewayPlace]*GatewayListener
	// names are the servers that have a server name, by place; hosts those that have a host in plain text.
	names map[gatewayPlace]map[string]*GatewayServer
	hosts map[sharedHost]*GatewayServer
	out   *Gateway
}

// mergedGateway merges the servers of Gateways, which are given oldest first: where two cannot share a place, or a server name,
// the first has it.
func mergedGateway(list []*config.Config, key GatewayKey, settings *snapshot.Settings) *Gateway {
	m := &gatewayMerge{
		key: key, settings: settings, ports: decodeGatewayPorts(key.Ports),
		listeners: map[gatewayPlace]*GatewayListener{}, names: map[gatewayPlace]map[string]*GatewayServer{}, hosts: map[sharedHost]*GatewayServer{},
		out: &Gateway{routes: map[string]*GatewayRoute{}},
	}
	for _, c := range list {
		for i, server := range config.Spec[*networking.Gateway](c).GetServers() {
			m.server(newGatewayServer(c, i, server))
		}
	}
	for _, l := range m.listeners {
		m.out.Listeners = append(m.out.Listeners, l)
	}
	slices.SortFunc(m.out.Listeners, func(a, b *GatewayListener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Bind, b.Bind))
	})
	slices.SortFunc(m.out.Problems, config.Problem.Compare)
	m.out.Problems = slices.Compact(m.out.Problems)
	return m.out
}

func newGatewayServer(c *config.Config, index int, spec *networking.Server) *GatewayServer {
	s := &GatewayServer{Spec: spec, Object: c, Index: index, Gateway: c.Namespace + "/" + c.Name}
	s.Protocol, _ = mesh.ParseProtocol(spec.GetPort().GetProtocol())
	for _, h := range spec.GetHosts() {
		s.Hosts = append(s.Hosts, gatewayHost(h, c.Namespace))
	}
	return s
}

// server adds a server at each place that it is for.
func (m *gatewayMerge) server(s *GatewayServer) {
	if s.Spec.GetPort() == nil || len(s.Hosts) == 0 {
		return // validation has said so
	}
	if !s.Protocol.Captured() {
		m.problem(s, "port.protocol", fmt.Sprintf("proxies do not forward %s: this server is left out", s.Spec.GetPort().GetProtocol()))
		return
	}
	for _, port := range m.targets(s.Port()) {
		at := gatewayPlace{port, s.Spec.GetBind()}
		if !strings.HasPrefix(at.bind, "unix://") && !m.canListen(s, port) {
			continue
		}
		one := *s
		m.place(&one, at)
	}
}

// targets gives the ports of the gateway to which a Service port leads; the same port where no Service leads to it.
func (m *gatewayMerge) targets(number uint32) []uint32 {
	var list []uint32
	for _, p := range m.ports {
		if p.number == number && !p.udp && !slices.Contains(list, p.target) {
			list = append(list, p.target)
		}
	}
	if len(list) == 0 {
		return []uint32{number}
	}
	slices.Sort(list)
	return list
}

// Ports that the bootstrap and the agent of every proxy listen on, but for those in ProxyConfig.
const (
	readinessPort  = 15021
	prometheusPort = 15090
)

// firstUnprivileged is the lowest port that a process without privileges may listen on.
const firstUnprivileged = 1024

func (m *gatewayMerge) canListen(s *GatewayServer, port uint32) bool {
	proxy := m.settings.Mesh.GetDefaultConfig()
	switch {
	case slices.Contains([]uint32{readinessPort, prometheusPort, uint32(proxy.GetProxyAdminPort()), uint32(proxy.GetStatusPort())}, port):
		m.problem(s, "port.number", fmt.Sprintf("port %d is one of the proxy's own: nothing is served there", port))
		return false
	case m.key.Unprivileged && port < firstUnprivileged:
		m.problem(s, "port.number", fmt.Sprintf("gateways without privileges cannot listen on port %d: have a Service lead to a target port of 1024 or above", port))
		return false
	default:
		return true
	}
}

// place adds a server at one place, or as much of it as is not taken there.
func (m *gatewayMerge) place(s *GatewayServer, at gatewayPlace) {
	sharing := Alone
	switch {
	case s.TLS():
		sharing = ByServerName
	case s.Protocol.IsHTTP():
		sharing = ByHost
	}
	l := m.listeners[at]
	switch {
	case l == nil:
	case l.Sharing != sharing, sharing == Alone:
		first := l.Servers[0]
		m.problem(s, "port", fmt.Sprintf("port %d is served as %s by %s, which comes first: this server is left out",
			s.Port(), first.Spec.GetPort().GetProtocol(), first.Object.Key))
		return
	}
	switch {
	case sharing == ByServerName && !m.claim(s, at):
		return
	case sharing == ByHost:
		m.share(s, at)
	}
	s.Route = gatewayRouteName(s, at)
	if l == nil {
		l = &GatewayListener{Port: at.port, Bind: at.bind, Sharing: sharing}
		m.listeners[at] = l
	}
	l.Servers = append(l.Servers, s)
	m.route(s, l)
}

// claim takes the server names that are not taken, and says whether there are any.
func (m *gatewayMerge) claim(s *GatewayServer, at gatewayPlace) bool {
	names := m.names[at]
	if names == nil {
		names = map[string]*GatewayServer{}
		m.names[at] = names
	}
	for i, h := range s.Hosts {
		name := strings.TrimSuffix(string(h.Host), ".")
		owner := names[name]
		switch {
		case !plainWildcard(name):
			m.problem(s, fmt.Sprintf("hosts[%d]", i), fmt.Sprintf("%q: the wildcard of a server name must be a whole label at its beginning: connections for it are not told from others", name))
		case owner == nil:
			names[name] = s
			s.ServerNames = append(s.ServerNames, name)
		case owner != s:
			m.problem(s, fmt.Sprintf("hosts[%d]", i), fmt.Sprintf("connections on port %d that ask for %q are those of %s, which comes first", s.Port(), name, owner.Object.Key))
		}
	}
	slices.Sort(s.ServerNames)
	return len(s.ServerNames) > 0
}

// share tells of hosts in plain text that another Gateway has at the same place: what is bound to either is joined.
func (m *gatewayMerge) share(s *GatewayServer, at gatewayPlace) {
	for i, h := range s.Hosts {
		k := sharedHost{at, h}
		switch owner := m.hosts[k]; {
		case owner == nil:
			m.hosts[k] = s
		case owner.Object != s.Object:
			m.problem(s, fmt.Sprintf("hosts[%d]", i), fmt.Sprintf("requests for %q on port %d are served for %s too, which comes first: what is bound to either is joined", h.Host, s.Port(), owner.Object.Key))
		}
	}
}

// plainWildcard says whether Envoy knows the name as one of a server: a wildcard stands for whole labels.
func plainWildcard(name string) bool {
	rest, _ := strings.CutPrefix(name, "*.")
	return name == "*" || name != "" && !strings.Contains(rest, "*")
}

// route notes the RouteConfiguration of a server, and whether HTTP/3 leads to it.
func (m *gatewayMerge) route(s *GatewayServer, l *GatewayListener) {
	if s.Route == "" {
		return
	}
	r := m.out.routes[s.Route]
	if r == nil {
		r = &GatewayRoute{Name: s.Route}
		m.out.routes[s.Route] = r
	}
	if !slices.ContainsFunc(r.Servers, func(o *GatewayServer) bool { return o.Object == s.Object && o.Index == s.Index }) {
		r.Servers = append(r.Servers, s)
	}
	// Envoy asks no client for a certificate over QUIC.
	if m.settings.Features.QUICListeners && s.Protocol == mesh.HTTPS && s.Spec.GetTls().GetMode() == networking.ServerTLSSettings_SIMPLE && m.comesByUDP(s.Port()) {
		r.QUIC, l.QUIC = true, true
	}
}

// comesByUDP says whether clients reach a Service port by UDP too: not where Services lead to it by TCP alone.
func (m *gatewayMerge) comesByUDP(number uint32) bool {
	known := false
	for _, p := range m.ports {
		if p.number == number {
			if p.udp {
				return true
			}
			known = true
		}
	}
	return !known
}

func (m *gatewayMerge) problem(s *GatewayServer, field, reason string) {
	m.out.Problems = append(m.out.Problems, config.Problem{
		Key: s.Object.Key, Field: fmt.Sprintf("spec.servers[%d].%s", s.Index, field), Reason: reason, Severity: config.Warning,
	})
}

// gatewayRouteName gives the name of a server's RouteConfiguration, "" if it reads no requests. Servers in plain text share that
// of their port; of HTTPS each has its own, which says where it comes from: "https.443.web.public.istio-system".
func gatewayRouteName(s *GatewayServer, at gatewayPlace) string {
	var name string
	switch {
	case !s.HTTP():
		return ""
	case s.Protocol.IsHTTP():
		name = "http." + strconv.FormatUint(uint64(at.port), 10)
	default:
		name = "https." + strconv.FormatUint(uint64(s.Port()), 10) + "." + s.Spec.GetPort().GetName() + "." + s.Object.Name + "." + s.Object.Namespace
	}
	if at.bind != "" {
		name += "." + at.bind
	}
	return name
}
