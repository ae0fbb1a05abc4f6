package readapi

import (
	"fmt"
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// ListenerRow is a filter chain of a listener.
type ListenerRow struct {
	Name        string `json:"name"`
	Address     string `json:"address"`
	Port        uint32 `json:"port,omitempty"`
	Match       string `json:"match" doc:"Connections that the filter chain matches."`
	Destination string `json:"destination,omitempty" doc:"Route configuration or clusters that it forwards to."`
	Route       string `json:"route,omitempty" doc:"Name of the RouteConfiguration, if it is received by RDS."`
	Sources
}

// addListener adds a row for each filter chain of a listener, the default one last, and returns an
// error if r cannot be decoded.
func (t *proxyTables) addListener(r *resource.Resource) error {
	m := new(listenerv3.Listener)
	if err := proto.Unmarshal(r.Body, m); err != nil {
		return err
	}
	add := func(c *listenerv3.FilterChain, match string) {
		row := ListenerRow{
			Name: m.GetName(), Address: addressText(m.GetAddress()),
			Port:  m.GetAddress().GetSocketAddress().GetPortValue(),
			Match: match, Sources: t.sourcesOf(r),
		}
		row.Destination, row.Route = destinationOf(c)
		t.Listeners = appendRow(t, t.Listeners, row)
	}
	for _, c := range m.GetFilterChains() {
		add(c, chainMatchText(c.GetFilterChainMatch()))
	}
	if c := m.GetDefaultFilterChain(); c != nil {
		add(c, "all other connections")
	}
	return nil
}

// chainMatchText describes the connections that a filter chain matches: destination prefixes and
// port, server names, transport and ALPN. Without any of these, also if m is nil, it returns "all
// connections". Other conditions are not described.
func chainMatchText(m *listenerv3.FilterChainMatch) string {
	var parts []string
	for _, r := range m.GetPrefixRanges() {
		parts = append(parts, fmt.Sprintf("destination %s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
	}
	if m.GetDestinationPort() != nil {
		parts = append(parts, fmt.Sprintf("destination port %d", m.GetDestinationPort().GetValue()))
	}
	if len(m.GetServerNames()) > 0 {
		parts = append(parts, "server name "+strings.Join(m.GetServerNames(), " or "))
	}
	if m.GetTransportProtocol() != "" {
		parts = append(parts, "transport "+m.GetTransportProtocol())
	}
	if len(m.GetApplicationProtocols()) > 0 {
		parts = append(parts, "ALPN "+strings.Join(m.GetApplicationProtocols(), " or "))
	}
	if len(parts) == 0 {
		return "all connections"
	}
	return strings.Join(parts, ", ")
}

// destinationOf returns a text for the destination of the first HTTP connection manager or TCP
// proxy of a filter chain. route is the name of its RouteConfiguration if that is received by RDS.
// Both are empty if there is none that can be decoded.
func destinationOf(c *listenerv3.FilterChain) (text, route string) {
	for _, f := range c.GetFilters() {
		switch {
		case f.GetTypedConfig().MessageIs((*hcmv3.HttpConnectionManager)(nil)):
			m := new(hcmv3.HttpConnectionManager)
			if f.GetTypedConfig().UnmarshalTo(m) != nil {
				continue
			}
			if name := m.GetRds().GetRouteConfigName(); name != "" {
				return "routes " + name, name
			}
			return "inline routes to " + strings.Join(clustersOf(m.GetRouteConfig()), ", "), ""
		case f.GetTypedConfig().MessageIs((*tcpv3.TcpProxy)(nil)):
			m := new(tcpv3.TcpProxy)
			if f.GetTypedConfig().UnmarshalTo(m) == nil {
				return "TCP to " + tcpClusters(m), ""
			}
		}
	}
	return "", ""
}

// clustersOf returns texts for the actions of all routes of a RouteConfiguration, without
// duplicates. They are in the order of the routes.
func clustersOf(m *routev3.RouteConfiguration) []string {
	var list []string
	for _, h := range m.GetVirtualHosts() {
		for _, r := range h.GetRoutes() {
			if text := explain.DescribeAction(r); !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return list
}

// tcpClusters returns the name of the TCP proxy's cluster, or "WEIGHT × NAME" for each weighted
// cluster, joined by commas.
func tcpClusters(m *tcpv3.TcpProxy) string {
	if m.GetWeightedClusters() == nil {
		return m.GetCluster()
	}
	var parts []string
	for _, c := range m.GetWeightedClusters().GetClusters() {
		parts = append(parts, fmt.Sprintf("%d × %s", c.GetWeight(), c.GetName()))
	}
	return strings.Join(parts, ", ")
}
