package view

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// addRoute adds s to its RouteConfiguration; it does nothing if s serves no HTTP. HTTP/3 is enabled
// on both the route and the listener if the feature is on, s is HTTPS in mode SIMPLE, and the port
// accepts UDP. A server is added only once.
func (m *gatewayMerge) addRoute(s *GatewayServer, l *GatewayListener) {
	if s.Route == "" {
		return
	}
	r := m.out.routes[s.Route]
	if r == nil {
		r = &GatewayRoute{Name: s.Route}
		m.out.routes[s.Route] = r
	}
	if !slices.ContainsFunc(
		r.Servers,
		func(o *GatewayServer) bool { return o.Object == s.Object && o.Index == s.Index },
	) {
		r.Servers = append(r.Servers, s)
	}
	// Envoy asks no client for a certificate over QUIC.
	if m.settings.Features.QUICListeners && s.Protocol == mesh.HTTPS &&
		s.Spec.GetTls().GetMode() == networking.ServerTLSSettings_SIMPLE &&
		m.acceptsUDP(s.Port()) {
		r.QUIC, l.QUIC = true, true
	}
}

// addSiblings sets the siblings of the RouteConfigurations of a listener: the other servers that
// serve HTTP there. Only listeners of the Gateway API that share an address by server name have
// siblings.
func (m *gatewayMerge) addSiblings(l *GatewayListener) {
	if l.Sharing != ByServerName {
		return
	}
	for _, s := range l.Servers {
		for _, o := range l.Servers {
			if s != o && s.Route != "" && s.IsListener() && o.ServesHTTP() && o.IsListener() {
				m.out.routes[s.Route].Siblings = append(m.out.routes[s.Route].Siblings, o)
			}
		}
	}
}

// disableQUIC disables HTTP/3 on a UDP port that a UDP listener has: on the TCP listener with the
// address at, and its routes. It does nothing if there is no such TCP listener.
func (m *gatewayMerge) disableQUIC(at listenAddress) {
	at.udp = false
	l := m.listeners[at]
	if l == nil {
		return
	}
	l.QUIC = false
	for _, s := range l.Servers {
		if s.Route != "" {
			m.out.routes[s.Route].QUIC = false
		}
	}
}

// acceptsUDP reports whether clients can reach a Service port by UDP. It returns false only if
// Services map the port for TCP alone.
func (m *gatewayMerge) acceptsUDP(number uint32) bool {
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

// gatewayRouteName returns the name of a server's RouteConfiguration, or "" if it does not serve
// HTTP. Plain-text servers share a name with the port at which the proxy listens: "http.8080". Each
// HTTPS server has its own, with the port of the Service and its origin:
// "https.443.web.public.istio-system". The bind address is appended if there is one.
func gatewayRouteName(s *GatewayServer, at listenAddress) string {
	var name string
	switch {
	case !s.ServesHTTP():
		return ""
	case s.Protocol.IsHTTP():
		name = fmt.Sprintf("http.%d", at.port)
	default:
		name = fmt.Sprintf("https.%d.%s.%s.%s", s.Port(), s.Spec.GetPort().GetName(), s.Object.Name, s.Object.Namespace)
	}
	if at.bind != "" {
		name += "." + at.bind
	}
	return name
}
