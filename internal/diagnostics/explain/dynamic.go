package explain

import (
	"net"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	httpdfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
)

// dynamicCluster is the type of clusters that resolve the host of the request, or the server name
// of the connection, as their only endpoint.
const dynamicCluster = "envoy.clusters.dynamic_forward_proxy"

// dynamicEndpoints returns the host that a filter has recorded for the DNS lookup, with its port,
// as the only endpoint of a dynamic cluster. It returns nil if no filter has recorded one. The
// default port is 443 if the cluster uses a transport socket, and 80 otherwise. It adds a step in
// any case.
func (w *walk) dynamicEndpoints(c *clusterv3.Cluster) []Endpoint {
	if w.dynamic == "" {
		w.addNote(StageEndpoints, c.GetName(), "no filter has resolved a name, so there is no endpoint")
		return nil
	}
	host, port := w.dynamic, "80"
	if c.GetTransportSocket() != nil {
		port = "443"
	}
	if h, p, err := net.SplitHostPort(w.dynamic); err == nil {
		host, port = h, p
	}
	address := net.JoinHostPort(host, port)
	w.addNote(StageEndpoints, c.GetName(), "%s, as the proxy resolves the name", address)
	return []Endpoint{{Address: address, Share: 1}}
}

// recordDynamicHost sets x.dynamic, the name for the DNS lookup, to the authority of the request.
// The per-route configuration of filter overrides it with a literal or a header. A header that the
// request does not have yields "".
func (x *exchange) recordDynamicHost(filter string) {
	x.dynamic = x.request.Authority
	if p, ok := unpackAny(x.perRoute(filter), new(httpdfpv3.PerRouteConfig)); ok {
		switch {
		case p.GetHostRewriteLiteral() != "":
			x.dynamic = p.GetHostRewriteLiteral()
		case p.GetHostRewriteHeader() != "":
			x.dynamic, _ = x.request.headerValue(p.GetHostRewriteHeader())
		}
	}
}

// recordDynamicServerName sets w.dynamic, the name for the DNS lookup, to the server name of the
// call with the filter's port. It does nothing for a call without a server name.
func (w *walk) recordDynamicServerName(f *snidfpv3.FilterConfig) {
	if w.call.ServerName != "" {
		w.dynamic = net.JoinHostPort(w.call.ServerName, strconv.FormatUint(uint64(f.GetPortValue()), 10))
	}
}
