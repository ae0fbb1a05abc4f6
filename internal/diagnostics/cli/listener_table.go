package cli

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// listenerTable returns the listeners with s.port and with s.address among all their addresses, as
// far as these are set, sorted by port and name. Each filter chain has a row. The default filter
// chain comes last and matches ALL. Listeners without chains are only in whole.
func listenerTable(d *dump, s selection) answer {
	x := answer{header: "ADDRESSES\tPORT\tMATCH\tDESTINATION"}
	list := slices.Clone(d.Listeners)
	slices.SortStableFunc(list, func(a, b listener) int {
		return cmp.Or(
			cmp.Compare(a.Address.SocketAddress.PortValue, b.Address.SocketAddress.PortValue),
			cmp.Compare(a.Name, b.Name),
		)
	})
	whole := []json.RawMessage{}
	for _, l := range list {
		addresses := []string{l.Address.SocketAddress.Address}
		for _, more := range l.AdditionalAddresses {
			addresses = append(addresses, more.Address.SocketAddress.Address)
		}
		port := l.Address.SocketAddress.PortValue
		if s.port != 0 && s.port != port || s.address != "" && !slices.Contains(addresses, s.address) {
			continue
		}
		whole = append(whole, l.raw)
		for i := range l.FilterChains {
			c := &l.FilterChains[i]
			x.rows = append(
				x.rows,
				[]string{strings.Join(addresses, ","), formatUint(port), c.matchText(), c.destinationText()},
			)
		}
		if c := l.DefaultFilterChain; c != nil {
			x.rows = append(
				x.rows,
				[]string{strings.Join(addresses, ","), formatUint(port), "ALL", c.destinationText()},
			)
		}
	}
	x.whole = whole
	return x
}

// matchText describes the connections that a filter chain matches: SNI, transport, ALPN, and
// address with port. Other criteria are not described. It returns "ALL" if there are none.
func (c *filterChain) matchText() string {
	var parts []string
	m := c.Match
	if len(m.ServerNames) > 0 {
		parts = append(parts, "SNI: "+strings.Join(m.ServerNames, ","))
	}
	if m.TransportProtocol != "" {
		parts = append(parts, "Trans: "+m.TransportProtocol)
	}
	if len(m.ApplicationProtocols) > 0 {
		parts = append(parts, "App: "+strings.Join(m.ApplicationProtocols, ","))
	}
	port := ""
	if m.DestinationPort != 0 {
		port = ":" + formatUint(m.DestinationPort)
	}
	var addresses []string
	for _, r := range m.PrefixRanges {
		addresses = append(addresses, r.AddressPrefix+"/"+formatUint(r.PrefixLen)+port)
	}
	switch {
	case len(addresses) > 0:
		parts = append(parts, "Addr: "+strings.Join(addresses, ","))
	case port != "":
		parts = append(parts, "Addr: *"+port)
	case len(parts) == 0:
		return "ALL"
	}
	return strings.Join(parts, "; ")
}

// destinationText returns the route configuration, inline routes or clusters that a filter chain
// forwards to, with a title such as "Route: ". Only the first filter with a destination is
// considered. It returns "-" if there is none.
func (c *filterChain) destinationText() string {
	for _, f := range c.Filters {
		t := f.TypedConfig
		switch {
		case t.RDS.RouteConfigName != "":
			return "Route: " + t.RDS.RouteConfigName
		case t.RouteConfig != nil:
			return "Inline Route: " + t.RouteConfig.targetClusters()
		case t.Cluster != "":
			return "Cluster: " + t.Cluster
		case len(t.WeightedClusters.Clusters) > 0:
			var names []string
			for _, w := range t.WeightedClusters.Clusters {
				names = append(names, w.Name)
			}
			return "Cluster: " + strings.Join(names, ",")
		}
	}
	return "-"
}

// targetClusters returns the clusters of a route configuration, comma-separated, in the order of
// the routes and without duplicates. Weighted clusters are not included.
func (r *routeConfig) targetClusters() string {
	var names []string
	for _, h := range r.VirtualHosts {
		for _, x := range h.Routes {
			if n := x.Route.Cluster; n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return strings.Join(names, ",")
}
