package listener

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Spec is one planned listener, before it is encoded. String returns its complete text.
type Spec struct {
	Name string
	// Address and Port are the listener's address: an IP, or a socket "unix://PATH" with Port 0.
	Address string
	Port    uint32
	// More are additional addresses with the same port: the same of the other family ("::" beside
	// "0.0.0.0").
	More []string
	// Inbound is set for traffic to the workload, and not for its own calls.
	Inbound bool
	// Gateway is set for traffic from outside the mesh.
	Gateway bool
	// QUIC is set for a UDP port.
	QUIC bool
	// ProxyProtocol reads the source of a connection from a PROXY protocol header.
	ProxyProtocol bool
	// Bind listens on the address. Other listeners receive captured connections by their original
	// destination.
	Bind bool
	// UseOriginalDst forwards connections to the listener of their original destination.
	UseOriginalDst bool
	// Transparent listens with IP_TRANSPARENT (interception by TPROXY).
	Transparent bool
	// LocalDestination sets the original destination to the address that the client connected to:
	// for listeners that are not captured and whose cluster is of type ORIGINAL_DST.
	LocalDestination bool
	// OriginalDst, TLSInspector and HTTPInspector enable listener filters.
	OriginalDst, TLSInspector, HTTPInspector bool
	// NoInspection are the destination ports that no inspector reads from: if the server sends
	// first, waiting for the client's bytes would never end.
	NoInspection []uint32
	// NoHTTPInspection are additional ports that the HTTP inspector does not read from: there only
	// mutual TLS is detected.
	NoHTTPInspection []uint32
	// Chains are selected by match; Default handles all other connections. Only some gateways'
	// listeners have no Default.
	Chains  []Chain
	Default Chain
	// UDP forwards the datagrams of a UDP port. The listener has no chains then.
	UDP *UDP
	// From are the objects that the listener derives from, sorted and without duplicates.
	From []config.Key
}

// Chain is one filter chain: its match, and the destination of its connections. Exactly one of HTTP
// and TCP is set.
type Chain struct {
	Name  string
	Match Match
	// TLS is how the proxy terminates TLS; nil if it does not.
	TLS  *TLS
	HTTP *HTTP
	TCP  *TCP
}

// Match selects connections. Zero fields match everything. Envoy compares destination port, prefix,
// SNI, transport and application protocol in this order, selects the most specific value each time
// and never goes back. Chains that share connections of one port, prefix or transport must all have
// it.
type Match struct {
	DestinationPort uint32
	Prefixes        []string // destination CIDRs, canonical
	SNI             []string // "*.example.com" or exact, lower case
	Transport       string   // rawBuffer, tlsTransport, or "" for any
	// HTTP matches only connections on which the HTTP inspector detected plaintext HTTP.
	HTTP bool
	// ALPN matches only connections whose client offers one of these names.
	ALPN []string
}

// orAny returns values, or a list of "" (any) if values is empty.
func orAny(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

const (
	// rawBuffer is the transport of connections on which the TLS inspector detected no TLS, or did
	// not run.
	rawBuffer = "raw_buffer"
	// tlsTransport is the transport of connections with TLS.
	tlsTransport = "tls"
)

// HTTP is a connection manager.
type HTTP struct {
	StatPrefix string
	// Route is the name of the RDS resource (outbound).
	Route string
	// Inbound is the inline route (inbound).
	Inbound *InboundRoute
	// GRPCWeb translates gRPC-Web of browsers into gRPC.
	GRPCWeb bool
	// Lookup resolves the hosts of requests.
	Lookup Lookup
	// Destination sets mesh.DestinationHeader in requests, because routes match it.
	Destination bool
	// AbsoluteURL accepts "GET http://host/path": clients use the listener as their HTTP proxy.
	AbsoluteURL bool
	// Gateway is set at the edge of the mesh.
	Gateway *GatewayHTTP
}

// InboundRoute is the only route of an inbound chain.
type InboundRoute struct {
	Cluster string
	// VirtualHost is "inbound|http|<port>": of the service, or of the Sidecar's ingress listener.
	VirtualHost string
	// Operation is the name in traces: "reviews.default.svc.cluster.local:9080/*".
	Operation string
	// Retries adds a retry policy for all requests but gRPC. With one, Envoy keeps the body of every
	// open stream up to its buffer limit (1 MiB).
	Retries bool
}

// TCP is a TCP proxy.
type TCP struct {
	// Discovered references an extension config instead (ECDS, by the name of the chain), which
	// contains everything but Mongo and Lookup. So a route can change without its listener, whose
	// connections Envoy would drain.
	Discovered bool
	StatPrefix string
	// Clusters has one entry, or several with weights.
	Clusters []WeightedCluster
	// PassedThrough is set for mutual TLS that a gateway forwards between proxies (AUTO_PASSTHROUGH).
	// Access policies are not checked: only the server sees the caller's identity.
	PassedThrough bool
	// Mongo parses the Mongo protocol for its metrics before forwarding.
	Mongo bool
	// Lookup resolves the server names of TLS connections.
	Lookup Lookup
	// Redis parses commands, and sends each to the endpoint of its key.
	Redis bool
	// IdleTimeoutMS is the idle timeout in milliseconds. 0 means the proxy's own
	// (Settings.IdleTimeout) or Envoy's default (1 hour), a negative value no timeout.
	IdleTimeoutMS int64
	// MaxDurationMS is the maximum duration of connections in milliseconds. 0 means no maximum.
	MaxDurationMS int64
	// SourceIPHash keeps the connections of one client on one endpoint (DestinationRule
	// consistentHash.useSourceIp).
	SourceIPHash bool
	// Tunnel is the destination, "host:port", that the forward proxy connects to if connections are
	// tunnelled in HTTP requests to it, or "". TunnelByPost uses POST instead of CONNECT.
	Tunnel       string
	TunnelByPost bool
}

// UDP is a UDP proxy.
type UDP struct {
	StatPrefix string
	// Clusters have the weights of the shares of sessions. A share without a name is dropped.
	Clusters []WeightedCluster
}

// WeightedCluster is a destination. Its weight is relative to the sum of all, and irrelevant if it
// is the only one.
type WeightedCluster struct {
	Name   string
	Weight uint32
}

// clusters returns the names of the clusters that the listener itself references, sorted and
// without duplicates: clusters of services, of SDS providers and of UDP. Clusters that RDS or ECDS
// reference are not included.
func (s *Spec) clusters() []string {
	var names []string
	add := func(c *Chain) {
		if c.TCP != nil && !c.TCP.Discovered {
			names = append(names, c.TCP.clusterNames()...)
		}
		if provider := c.TLS.providerCluster(); provider != "" {
			names = append(names, provider)
		}
	}
	for i := range s.Chains {
		add(&s.Chains[i])
	}
	add(&s.Default)
	if s.UDP != nil {
		for _, c := range s.UDP.Clusters {
			if c.Name != "" {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ports returns the destination ports that chains match, sorted and without duplicates.
func (s *Spec) ports() []uint32 {
	var list []uint32
	for i := range s.Chains {
		if p := s.Chains[i].Match.DestinationPort; p != 0 {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// clusterNames returns the names of the clusters of services, without the clusters that every proxy
// has (mesh.PassthroughCluster and so on).
func (t *TCP) clusterNames() []string {
	var names []string
	for _, c := range t.Clusters {
		if strings.Contains(c.Name, "|") {
			names = append(names, c.Name)
		}
	}
	return names
}

// isRefusal reports whether connections are closed: the only cluster is mesh.BlackHoleCluster.
func (t *TCP) isRefusal() bool {
	return len(t.Clusters) == 1 && t.Clusters[0].Name == mesh.BlackHoleCluster
}

// forwardTo returns a TCP proxy to one cluster. The cluster's name is also the prefix of its
// statistics.
func forwardTo(cluster string) *TCP {
	return &TCP{StatPrefix: cluster, Clusters: []WeightedCluster{{Name: cluster}}}
}

// milliseconds converts a duration to the form of TCP: 0 is unset (nil), and -1, unlimited, is
// used for less than 1 ms.
func milliseconds(d *durationpb.Duration) int64 {
	switch {
	case d == nil:
		return 0
	case d.AsDuration() < time.Millisecond:
		return -1
	default:
		return d.AsDuration().Milliseconds()
	}
}

// listenerName returns the name of the listener at an address and port: "10.0.0.1_80", "::_80",
// "unix:///run/x.sock_0".
func listenerName(address string, port uint32) string {
	return address + "_" + formatNumber(port)
}

// statPrefix returns the prefix of a listener's HTTP statistics. The semicolon ends the part that
// becomes a tag of the metrics.
func statPrefix(d mesh.Direction, address string, port uint32) string {
	return string(d) + "_" + listenerName(address, port) + ";"
}

// formatNumber returns n in decimal.
func formatNumber(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
