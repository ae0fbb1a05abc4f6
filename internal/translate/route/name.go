package route

import (
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// ProxyName is the RouteConfiguration of the listener that applications use as an HTTP proxy (MeshConfig.proxyHttpPort).
const ProxyName = "http_proxy"

// request is what the name of a RouteConfiguration asks for.
type request struct {
	name string
	// port is the listener's port; 0 means all ports, told apart by the port in the request's host.
	port uint32
	// host is set for the port of one service, whose listener only its own requests reach.
	host mesh.Hostname
}

// parseName reads a RouteConfiguration's name: "9080", "reviews.default.svc.cluster.local:9080", "http_proxy", or the
// "unix://PATH" of a Sidecar's egress listener.
func parseName(name string) (request, bool) {
	if name == ProxyName || strings.HasPrefix(name, "unix://") {
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

// parsePort reads a port as strconv writes it: one RouteConfiguration must not have two names.
func parsePort(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint32(n), err == nil && n != 0 && s[0] != '0'
}

// socket says that the listener is on a Unix domain socket.
func (r request) socket() bool { return strings.HasPrefix(r.name, "unix://") }

// egressFor finds the scope of a listener: of the Sidecar's egress listener on that port or socket, or else the one for
// everything. nil if there is neither. Of two listeners on one port the first counts.
func egressFor(v *view.View, r request) *view.Egress {
	for _, e := range v.Egress {
		switch port := e.Listener.GetPort(); {
		case r.socket():
			if e.Listener.GetBind() == r.name {
				return e
			}
		case port == nil, r.port != 0 && port.Number == r.port:
			return e
		}
	}
	return nil
}

// forAllPorts says that requests name their target's port themselves: the Sidecar's listener on the port is for callers
// that use it as an HTTP proxy.
func forAllPorts(e *view.Egress) bool {
	return e != nil && strings.EqualFold(e.Listener.GetPort().GetProtocol(), "HTTP_PROXY")
}
