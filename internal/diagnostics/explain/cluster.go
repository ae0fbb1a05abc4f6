package explain

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
)

// destination is a resolved cluster.
type destination struct {
	endpoints []Endpoint // only endpoints with a share above 0
	transport string
	protocol  string // HTTP version
}

// resolveCluster resolves a cluster by name and adds steps for it and its endpoints. If the cluster
// does not exist, it adds a step and returns nil without endings. It returns endings if the cluster
// cannot be decoded, selects subsets by metadata, or has an unsupported type. An unsupported
// transport only adds a step.
func (w *walk) resolveCluster(name string) (*destination, []Ending) {
	c, ok, err := w.Resources.decodeCluster(name)
	switch {
	case err != nil:
		return nil, w.failWith(err)
	case !ok:
		w.addNote(StageCluster, name, "the proxy has no cluster of this name")
		return nil, nil
	}
	transport, known := transportOf(c.message.GetTransportSocket())
	if !known {
		w.addNote(StageUnsupported, name, "its transport %s is not supported", c.message.GetTransportSocket().GetName())
	}
	if len(c.message.GetTransportSocketMatches()) > 0 {
		transport = byEndpoint
	}
	w.addStep(
		Step{
			Stage:    StageCluster,
			Resource: name,
			Decided:  clusterKind(c.message) + "; " + transport,
			By:       w.clusterObjects(c),
		},
	)
	if c.message.GetLbSubsetConfig() != nil {
		return nil, w.endUnsupported(name, "subset selection by metadata is not supported")
	}
	endpoints, end := w.clusterEndpoints(c.message)
	if end != nil {
		return nil, end
	}
	if transport == byEndpoint {
		endpoints, transport = w.setTransports(c.message, endpoints)
	}
	return &destination{endpoints, transport, w.upstreamProtocol(c.message)}, nil
}

// httpOptions is the extension in which a cluster configures its HTTP version.
const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// upstreamProtocol returns the HTTP version for requests to the endpoints of c, as a text. It is
// HTTP/2 if c requires that or follows a client with HTTP/2, HTTP/3 if c requires that, and
// HTTP/1.1 by default. If Envoy negotiates the version, the text names both.
func (w *walk) upstreamProtocol(c *clusterv3.Cluster) string {
	o, _ := unpackAny(c.GetTypedExtensionProtocolOptions()[httpOptions], new(upstreamsv3.HttpProtocolOptions))
	switch {
	case o.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil,
		o.GetUseDownstreamProtocolConfig() != nil && w.call.httpVersion() == HTTP2,
		//nolint:staticcheck // the older field, which EnvoyFilters may still use
		o.GetUpstreamProtocolOptions() == nil && c.GetHttp2ProtocolOptions() != nil:
		return "HTTP/2"
	case o.GetExplicitHttpConfig().GetHttp3ProtocolOptions() != nil:
		return "HTTP/3"
	case o.GetAutoConfig() != nil:
		return "HTTP/2 or HTTP/1.1, as is negotiated"
	default:
		return "HTTP/1.1"
	}
}

// clusterKind describes the discovery of endpoints of c (EDS, DNS, static or the original
// destination) and its load balancing policy. For an extension it returns the name of the cluster
// type. Original destinations have no load balancing policy.
func clusterKind(c *clusterv3.Cluster) string {
	if c.GetClusterType() != nil {
		return c.GetClusterType().GetName()
	}
	switch c.GetType() {
	case clusterv3.Cluster_EDS:
		return "endpoints from EDS, " + c.GetLbPolicy().String()
	case clusterv3.Cluster_ORIGINAL_DST:
		if o := c.GetOriginalDstLbConfig().GetUpstreamPortOverride(); o != nil {
			return fmt.Sprintf("original destination, port %d", o.GetValue())
		}
		return "goes where the connection was going"
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		return "resolves the names of its endpoints (" + c.GetType().String() + "), " + c.GetLbPolicy().String()
	default:
		return "has its endpoints written in (STATIC), " + c.GetLbPolicy().String()
	}
}

// transportOf describes a transport socket, including the one inside an upstream PROXY protocol. A
// missing socket is plain text. known is false if the socket is unsupported or cannot be decoded.
func transportOf(s *corev3.TransportSocket) (text string, known bool) {
	switch filterKind(s.GetName()) {
	case "", "raw_buffer":
		return "plain text", true
	case "tls":
		t, ok := unpackAny(s.GetTypedConfig(), new(tlsv3.UpstreamTlsContext))
		switch {
		case !ok:
			return "TLS", false
		case t.GetAutoHostSni():
			return "TLS, server name as the host of the request", true
		case t.GetSni() == "":
			return "TLS, no server name", true
		}
		return "TLS, server name " + t.GetSni(), true
	case "upstream_proxy_protocol":
		p, ok := unpackAny(s.GetTypedConfig(), new(proxyprotocolv3.ProxyProtocolUpstreamTransport))
		inner, known := transportOf(p.GetTransportSocket())
		return "PROXY protocol, then " + inner, ok && known
	default:
		return s.GetName(), false
	}
}

// clusterEndpoints returns the endpoints of c with a share above 0, and adds a step. The endpoint
// of an original-destination cluster is the call's destination, that of a dynamic forward proxy
// cluster the host that a filter has recorded. Without a received assignment it returns none. It
// returns endings if the cluster type is unsupported or the assignment cannot be decoded.
func (w *walk) clusterEndpoints(c *clusterv3.Cluster) ([]Endpoint, []Ending) {
	if c.GetClusterType().GetName() == dynamicCluster {
		return w.dynamicEndpoints(c), nil
	}
	if c.GetClusterType() != nil {
		return nil, w.endUnsupported(
			c.GetName(),
			"clusters of the type %s are not supported",
			c.GetClusterType().GetName(),
		)
	}
	switch c.GetType() {
	case clusterv3.Cluster_ORIGINAL_DST:
		to := w.call.To
		if o := c.GetOriginalDstLbConfig().GetUpstreamPortOverride(); o != nil {
			return w.originalEndpoint(fmt.Sprintf("%s:%d", bracketHost(to.Addr().String()), o.GetValue())), nil
		}
		return w.originalEndpoint(to.String()), nil
	case clusterv3.Cluster_EDS:
		name := c.GetEdsClusterConfig().GetServiceName()
		if name == "" {
			name = c.GetName()
		}
		a, ok, err := w.decodeAssignment(name)
		if err != nil {
			return nil, w.failWith(err)
		}
		if !ok {
			w.addNote(StageEndpoints, name, "no ClusterLoadAssignment was received, so the cluster has no endpoints")
			return nil, nil
		}
		return w.balancedEndpoints(name, a.message, c), nil
	default:
		return w.balancedEndpoints(c.GetName(), c.GetLoadAssignment(), c), nil
	}
}

// originalEndpoint returns the original destination as the only endpoint, and adds a step. It
// returns nil if the connection was not captured, unless a filter has set its original destination
// (w.known).
func (w *walk) originalEndpoint(address string) []Endpoint {
	if w.call.Direction == Direct && !w.known {
		w.addNote(StageEndpoints, "", "the connection was not captured, so there is no original destination")
		return nil
	}
	w.addNote(StageEndpoints, "", "%s, the original destination", address)
	return []Endpoint{{Address: address, Share: 1}}
}

// balancedEndpoints returns the endpoints of an assignment with a share above 0. It adds a step
// with their shares and the number of other endpoints. A step is added even if there is none.
func (w *walk) balancedEndpoints(name string, a *endpointv3.ClusterLoadAssignment, c *clusterv3.Cluster) []Endpoint {
	var used []Endpoint
	idle := 0
	for _, e := range endpointShares(a, c) {
		if e.Share == 0 {
			idle++
			continue
		}
		used = append(used, e)
	}
	text := endpointsText(used)
	if len(used) == 0 {
		text = "none to use"
	}
	if idle > 0 {
		text += fmt.Sprintf("; %d more are of lower priority or unhealthy", idle)
	}
	w.addNote(StageEndpoints, name, "%s", text)
	return used
}
