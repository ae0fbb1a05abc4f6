package mesh

import (
	"fmt"
	"strconv"
	"strings"
)

// Direction is the direction of a cluster's traffic, as seen from the proxy.
type Direction string

// The directions in cluster names.
const (
	Outbound Direction = "outbound"
	Inbound  Direction = "inbound"
	// OutboundUDP is for UDP ports, because a service may have the same port number for TCP and UDP.
	OutboundUDP Direction = "outbound_udp"
)

// Clusters whose names are not ClusterNames.
const (
	BlackHoleCluster          = "BlackHoleCluster"
	PassthroughCluster        = "PassthroughCluster"
	InboundPassthroughCluster = "InboundPassthroughCluster"
	// DynamicDNSCluster forwards requests to the address of their host in DNS
	// (ALLOW_ANY_DYNAMIC_DNS).
	DynamicDNSCluster = "AllowAnyDynamicDNSCluster"
)

// ClusterName is the parsed name of an Envoy cluster:
// "outbound|80|v1|reviews.default.svc.cluster.local", "inbound|9080||". All code formats and parses
// these names through this type.
type ClusterName struct {
	Direction Direction
	Port      uint32
	Subset    string
	Host      Hostname
}

// String returns the name as it appears in Envoy and metrics.
func (c ClusterName) String() string {
	return string(c.Direction) + "|" + strconv.FormatUint(uint64(c.Port), 10) + "|" + c.Subset + "|" + string(c.Host)
}

// ParseClusterName parses the output of String. It returns an error if the text has another form.
// The subset may be empty, the port at most 65535; the host is not checked.
func ParseClusterName(s string) (ClusterName, error) {
	parts := strings.SplitN(s, "|", 5)
	if len(parts) != 4 {
		return ClusterName{}, fmt.Errorf("cluster name %q: want direction|port|subset|host", s)
	}
	d := Direction(parts[0])
	if d != Outbound && d != Inbound && d != OutboundUDP {
		return ClusterName{}, fmt.Errorf("cluster name %q: unknown direction %q", s, parts[0])
	}
	port, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil {
		return ClusterName{}, fmt.Errorf("cluster name %q: port %q is not a port number", s, parts[1])
	}
	return ClusterName{Direction: d, Port: uint32(port), Subset: parts[2], Host: Hostname(parts[3])}, nil
}

// DefaultSNI returns the server name for mutual TLS between proxies,
// "outbound_.80_.v1_.reviews.default.svc.cluster.local".
func (c ClusterName) DefaultSNI() string {
	return string(c.Direction) + "_." + strconv.FormatUint(uint64(c.Port), 10) + "_." + c.Subset + "_." + string(c.Host)
}

// ParseSNI parses the output of DefaultSNI. Gateways of mode AUTO_PASSTHROUGH have clusters with
// such names. It returns an error if the text has another form.
func ParseSNI(s string) (ClusterName, error) {
	parts := strings.SplitN(s, "_.", 4)
	if len(parts) != 4 {
		return ClusterName{}, fmt.Errorf("server name %q: want direction_.port_.subset_.host", s)
	}
	n, err := ParseClusterName(strings.Join(parts, "|"))
	if err != nil {
		return ClusterName{}, fmt.Errorf("server name %q: %w", s, err)
	}
	return n, nil
}
