package route

import (
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// ProxyName is the RouteConfiguration of the listener that applications use as an HTTP proxy
// (Settings.HTTPProxyPort).
const ProxyName = "http_proxy"

// request is a parsed name of a RouteConfiguration.
type request struct {
	name string
	// port is the listener's port; 0 means all ports, distinguished by the port in the request's
	// host.
	port uint32
	// host is set for a listener that receives only requests for the port of one service.
	host mesh.Hostname
}

// parseName parses the name of a RouteConfiguration: "9080",
// "reviews.default.svc.cluster.local:9080", "http_proxy", or the "unix://PATH" of a Sidecar's
// egress listener. The bool is false for other names. The request has only the name for ProxyName
// and sockets.
func parseName(name string) (request, bool) {
	if name == ProxyName || config.IsSocket(name) {
		return request{name: name}, true
	}
	if port, ok := parsePort(name); ok {
		return request{name: name, port: port}, true
	}
	colon := strings.LastIndexByte(name, ':')
	if colon <= 0 {
		return request{}, false
	}
	port, ok := parsePort(name[colon+1:])
	return request{name: name, port: port, host: mesh.Hostname(name[:colon])}, ok
}

// parsePort parses a port that is not 0, in the form that strconv prints, because one
// RouteConfiguration must not have two names. ok is false for other texts.
func parsePort(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint32(n), err == nil && n != 0 && s[0] != '0'
}

// isSocket reports whether the listener is on a Unix domain socket.
func (r request) isSocket() bool { return config.IsSocket(r.name) }

// egressFor returns the first of the View's egress listeners that has the port of r or no port; for
// a socket, the listener that is bound to it. It returns nil if there is none.
func egressFor(v *view.View, r request) *view.Egress {
	for _, e := range v.Egress {
		switch port := e.Listener.GetPort(); {
		case r.isSocket():
			if e.Listener.GetBind() == r.name {
				return e
			}
		case port == nil, r.port != 0 && port.Number == r.port:
			return e
		}
	}
	return nil
}

// forAllPorts reports whether requests at an egress listener, which may be nil, include the port of
// their destination, because clients use it as an HTTP proxy.
func forAllPorts(e *view.Egress) bool {
	return e != nil && strings.EqualFold(e.Listener.GetPort().GetProtocol(), "HTTP_PROXY")
}
