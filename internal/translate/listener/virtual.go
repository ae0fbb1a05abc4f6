package listener

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

const (
	virtualOutbound = "virtualOutbound"
	virtualInbound  = "virtualInbound"
	// httpProxyRoute is the RDS resource of the HTTP proxy.
	httpProxyRoute = "http_proxy"
)

// planVirtualOutbound plans the listener that receives all captured outbound connections. It hands
// them to the listener of their original destination. Connections without one go to the cluster of
// unknown destinations; connections to its own port are closed. With Features.IPv4Outbound it also
// receives IPv4 connections of proxies that have only IPv6.
func planVirtualOutbound(v *view.View) Spec {
	addresses := familyOf(v).wildcard
	if v.Settings.Features.IPv4Outbound && !slices.Contains(addresses, wildcard4) {
		addresses = append(addresses, wildcard4)
	}
	port := uint32(v.Settings.Mesh.GetProxyListenPort())
	return Spec{
		Name: virtualOutbound, Address: addresses[0], More: addresses[1:], Port: port,
		Bind: true, UseOriginalDst: true, Transparent: v.Key.Interception == transparent,
		Chains: []Chain{{
			// A connection to the port itself would loop.
			Name:  "virtualOutbound-blackhole",
			Match: Match{DestinationPort: port},
			TCP:   forwardTo(mesh.BlackHoleCluster),
		}},
		Default: Chain{Name: "virtualOutbound-catchall-tcp", TCP: forwardTo(destination.Unknown(v))},
	}
}

// wildcard4 is the address of all IPv4 addresses.
const wildcard4 = "0.0.0.0"

// transparent is the mode of proxies that listen with IP_TRANSPARENT (Key.Interception).
const transparent = "TPROXY"

// planHTTPProxy plans the listener that applications use as their HTTP proxy, on loopback at
// Settings.HTTPProxyPort, which must not be 0. It accepts absolute URLs, resolves hosts by DNS, and
// uses the routes httpProxyRoute.
func planHTTPProxy(v *view.View) Spec {
	f := familyOf(v)
	addresses, port := f.loopback, v.Settings.HTTPProxyPort()
	n := listenerName(addresses[0], port)
	return Spec{
		Name: n, Address: addresses[0], More: addresses[1:], Port: port, Bind: true,
		Default: Chain{Name: n, HTTP: &HTTP{
			StatPrefix: statPrefix(mesh.Outbound, addresses[0], port), Route: httpProxyRoute, AbsoluteURL: true,
			// Always set, because this listener does not depend on which services exist.
			Lookup: f.lookup,
		}},
	}
}
