package listener

import (
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	networkstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// originalDestination is the filter state from which a cluster of type ORIGINAL_DST takes the
// address of its endpoint.
const originalDestination = "envoy.network.transport_socket.original_dst_address"

// localDestination returns a network filter that sets the original destination to the address to
// which the client connected. Connections to a listener that is not captured have no other: without
// the filter, clusters of type ORIGINAL_DST answer 503.
func localDestination() *listenerv3.Filter {
	value := &statev3.FilterStateValue{
		Key: &statev3.FilterStateValue_ObjectKey{ObjectKey: originalDestination},
		Value: &statev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: "%DOWNSTREAM_LOCAL_ADDRESS%"},
			}},
		}},
	}
	return networkFilter("envoy.filters.network.set_filter_state", &networkstatev3.Config{
		OnNewConnection: []*statev3.FilterStateValue{value},
	})
}

// needsLocalDestination reports whether an ingress listener that is not captured forwards
// connections to another port of the same address (defaultEndpoint 0.0.0.0:PORT). If the endpoint
// is unset, has no address (":PORT") or names the listener's own port, the proxy would call itself.
// Then needsLocalDestination returns false, so that calls are answered with 503, and adds a
// Problem.
func (p *inboundPlan) needsLocalDestination(v *view.View, index int, l *networking.IstioIngressListener) bool {
	endpoint, number := l.GetDefaultEndpoint(), l.GetPort().GetNumber()
	at, err := netip.ParseAddrPort(endpoint)
	switch {
	case endpoint == "" || strings.HasPrefix(endpoint, ":"):
	case err != nil || !at.Addr().IsUnspecified():
		return false
	case uint32(at.Port()) != number:
		return true
	}
	p.addProblem(v.Sidecar.Key, fmt.Sprintf("spec.ingress[%d].defaultEndpoint", index), fmt.Sprintf(
		"port %d is not captured, so the proxy itself listens there and has no original destination: calls fail (503 for HTTP); "+
			"name another port (0.0.0.0:PORT or 127.0.0.1:PORT) or a socket", number))
	return false
}
