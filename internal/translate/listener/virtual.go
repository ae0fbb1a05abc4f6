package listener

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

const (
	virtualOutbound = "virtualOutbound"
	virtualInbound  = "virtualInbound"
	// httpProxyRoute is the RDS resource of MeshConfig.proxyHttpPort.
	httpProxyRoute = "http_proxy"
)

// planVirtualOutbound plans the listener that capture hands all outbound connections to. It passes them on to the
// listener of their original destination; what has none falls to its default chain.
func planVirtualOutbound(v *view.View) Spec {
	addresses := familyOf(v.Key).wildcard
	port := uint32(v.Settings.Mesh.GetProxyListenPort())
	return Spec{
		Name: virtualOutbound, Address: addresses[0], More: addresses[1:], Port: port,
		Bind: true, UseOriginalDst: true, Transparent: v.Key.Interception == transparent,
		Chains: []Chain{{
			// Somebody who calls the port itself would be passed on to the proxy for ever.
			Name: "virtualOutbound-blackhole", Match: Match{DestinationPort: port}, TCP: forward(mesh.BlackHoleCluster),
		}},
		Default: Chain{Name: "virtualOutbound-catchall-tcp", TCP: forward(destination.Unknown(v))},
	}
}

// transparent is the mode of proxies that listen with IP_TRANSPARENT (Key.Interception).
const transparent = "TPROXY"

// planHTTPProxy plans the listener that applications use as their HTTP proxy (MeshConfig.proxyHttpPort).
func planHTTPProxy(v *view.View) Spec {
	f := familyOf(v.Key)
	addresses, port := f.loopback, uint32(v.Settings.Mesh.GetProxyHttpPort())
	n := name(addresses[0], port)
	return Spec{
		Name: n, Address: addresses[0], More: addresses[1:], Port: port, Bind: true,
		Default: Chain{Name: n, HTTP: &HTTP{
			StatPrefix: statPrefix(mesh.Outbound, addresses[0], port), Route: httpProxyRoute, AbsoluteURL: true,
			// Always: which services there are is no matter of this listener.
			Lookup: Lookup{IPv4: f.ipv4, IPv6: f.ipv6},
		}},
	}
}
