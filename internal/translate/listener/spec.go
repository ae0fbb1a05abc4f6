package listener

import (
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Spec is one listener as planned, before it is written as Envoy's protobuf. String prints all of it.
type Spec struct {
	Name string
	// Address and Port are what the listener answers for: an IP, or a socket "unix://PATH" with Port 0.
	Address string
	Port    uint32
	// More are further addresses with the same port: the same of the other family ("::" beside "0.0.0.0").
	More []string
	// Inbound listeners take what comes to the workload, the others what it sends.
	Inbound bool
	// Gateway listeners take what comes from outside the mesh.
	Gateway bool
	// QUIC listeners are at a port of UDP.
	QUIC bool
	// ProxyProtocol listeners read who a connection is from in its first bytes.
	ProxyProtocol bool
	// Bind says that the proxy really listens there. The others are handed connections by their original destination.
	Bind bool
	// UseOriginalDst hands connections on to the listener of their original destination.
	UseOriginalDst bool
	// Transparent listens with IP_TRANSPARENT (interception by TPROXY).
	Transparent bool
	// LocalDestination makes the address that the client connected to the original destination: for listeners that are not captured
	// and whose cluster is of type ORIGINAL_DST.
	LocalDestination bool
	// OriginalDst, TLSInspector and HTTPInspector are the listener filters it has.
	OriginalDst, TLSInspector, HTTPInspector bool
	// NoInspection are the destination ports whose first bytes the inspectors leave alone: where the server speaks first, a
	// wait for the client's bytes would never end.
	NoInspection []uint32
	// NoHTTPInspection are more ports that the HTTP inspector leaves alone: there only mutual TLS is told from the rest.
	NoHTTPInspection []uint32
	// Chains are tried by match; Default takes what none of them does. It is there in every listener but some of gateways.
	Chains  []Chain
	Default Chain
	// From are the objects that shaped it.
	From []config.Key
}

// Chain is one filter chain: what it matches and where its connections go. Exactly one of HTTP and TCP is set.
type Chain struct {
	Name  string
	Match Match
	// TLS is how the proxy ends TLS before it reads on; nil: it does not.
	TLS  *TLS
	HTTP *HTTP
	TCP  *TCP
}

// Match is what connections a chain takes. Zero fields match everything. Envoy compares destination port, prefix, SNI,
// transport and application protocol in this order, takes the most specific value each time and never goes back: chains
// that are to share connections of one port, prefix or transport must all name it.
type Match struct {
	DestinationPort uint32
	Prefixes        []string // destination CIDRs, canonical
	SNI             []string // "*.example.com" or exact, lower case
	Transport       string   // rawBuffer, tlsTransport, or "" for any
	// HTTP takes only connections on which the HTTP inspector saw HTTP in the clear.
	HTTP bool
	// ALPN takes only connections whose client says that it speaks one of these.
	ALPN []string
}

const (
	// rawBuffer is the transport of connections on which the TLS inspector saw no TLS, or did not look.
	rawBuffer = "raw_buffer"
	// tlsTransport is that of connections on which it did.
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
	// Lookup finds the addresses of the hosts of requests.
	Lookup Lookup
	// AbsoluteURL accepts "GET http://host/path": clients use the listener as their HTTP proxy.
	AbsoluteURL bool
	// Gateway is set at the edge of the mesh.
	Gateway *GatewayHTTP
}

// InboundRoute is the one route of an inbound chain.
type InboundRoute struct {
	Cluster string
	// VirtualHost is "inbound|http|<port>": of the service, or of the Sidecar's ingress listener.
	VirtualHost string
	// Operation is the name that traces give it: "reviews.default.svc.cluster.local:9080/*".
	Operation string
	// NoRetry omits the retry policy. With one, Envoy keeps the body of every open stream up to its buffer limit (1 MiB).
	NoRetry bool
}

// TCP is a TCP proxy.
type TCP struct {
	// Discovered says that the chain names an extension instead (ECDS, by the name of the chain), which has all of this but
	// Mongo and Lookup. So a route can change without its listener, whose connections Envoy would drain.
	Discovered bool
	StatPrefix string
	// Clusters has one entry, or several with weights.
	Clusters []WeightedCluster
	// Mongo reads the Mongo protocol for its metrics before forwarding.
	Mongo bool
	// Lookup finds the addresses of the server names of TLS connections.
	Lookup Lookup
	// Redis reads the commands, and sends each to the endpoint that its key belongs to.
	Redis bool
	// IdleTimeoutMS closes quiet connections, in milliseconds; 0: Envoy's default (1 hour), negative: never.
	IdleTimeoutMS int64
	// MaxDurationMS closes connections of that age, in milliseconds; 0: never.
	MaxDurationMS int64
	// SourceIPHash keeps the connections of one client on one endpoint (DestinationRule consistentHash.useSourceIp).
	SourceIPHash bool
	// Tunnel is where the forward proxy to which the connections go is asked to connect, "host:port"; "": they are not
	// wrapped into requests to one. TunnelByPost asks by POST rather than by CONNECT.
	Tunnel       string
	TunnelByPost bool
}

// WeightedCluster is a destination and its share.
type WeightedCluster struct {
	Name   string
	Weight uint32
}

// clusters gives the names of the clusters of services that the listener itself leads to, sorted: not by RDS or ECDS.
func (s *Spec) clusters() []string {
	var names []string
	add := func(c *Chain) {
		if c.TCP != nil && !c.TCP.Discovered {
			names = append(names, c.TCP.clusterNames()...)
		}
	}
	for i := range s.Chains {
		add(&s.Chains[i])
	}
	add(&s.Default)
	slices.Sort(names)
	return slices.Compact(names)
}

// ports gives the destination ports that chains are for, sorted.
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

// clusterNames gives the names of the clusters of services, not of those that every proxy has.
func (t *TCP) clusterNames() []string {
	var names []string
	for _, c := range t.Clusters {
		if strings.Contains(c.Name, "|") {
			names = append(names, c.Name)
		}
	}
	return names
}

// ends says that connections are closed.
func (t *TCP) ends() bool { return len(t.Clusters) == 1 && t.Clusters[0].Name == mesh.BlackHoleCluster }

// forward sends connections to one cluster.
func forward(cluster string) *TCP {
	return &TCP{StatPrefix: cluster, Clusters: []WeightedCluster{{Name: cluster}}}
}

// name is the name of the listener at an address and port: "10.0.0.1_80", "::_80", "unix:///run/x.sock_0".
func name(address string, port uint32) string {
	return address + "_" + number(port)
}

// statPrefix is the name of a listener's HTTP statistics. The semicolon ends the name where the metrics' tags are cut out.
func statPrefix(d mesh.Direction, address string, port uint32) string {
	return string(d) + "_" + name(address, port) + ";"
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
