package mesh

import (
	"fmt"
	"strconv"
	"strings"
)

// Direction is where a cluster's traffic goes, seen from the proxy.
type Direction string

// The directions that cluster names have.
const (
	Outbound Direction = "outbound"
	Inbound  Direction = "inbound"
)

// Clusters that have no ClusterName.
const (
	BlackHoleCluster          = "BlackHoleCluster"
	PassthroughCluster        = "PassthroughCluster"
	InboundPassthroughCluster = "InboundPassthroughCluster"
	// DynamicDNSCluster sends requests to where DNS says that their host is (ALLOW_ANY_DYNAMIC_DNS).
	DynamicDNSCluster = "AllowAnyDynamicDNSCluster"
)

// ClusterName is an Envoy cluster's name taken apart: "outbound|80|v1|reviews.default.svc.cluster.local",
// "inbound|9080||". It is the only thing that formats or parses these names.
type ClusterName struct {
	Direction Direction
	Port      uint32
	Subset    string
	Host      Hostname
}

// String gives the name as Envoy, metrics and users see it.
func (c ClusterName) String() string {
	return string(c.Direction) + "|" + strconv.FormatUint(uint64(c.Port), 10) + "|" + c.Subset + "|" + string(c.Host)
}

// ParseClusterName reads what String wrote.
func ParseClusterName(s string) (ClusterName, error) {
	parts := strings.SplitN(s, "|", 5)
	if len(parts) != 4 {
		return ClusterName{}, fmt.Errorf("cluster name %q: want direction|port|subset|host", s)
	}
	d := Direction(parts[0])
	if d != Outbound && d != Inbound {
		return ClusterName{}, fmt.Errorf("cluster name %q: unknown direction %q", s, parts[0])
	}
	port, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil {
		return ClusterName{}, fmt.Errorf("cluster name %q: port %q is not a port number", s, parts[1])
	}
	return ClusterName{Direction: d, Port: uint32(port), Subset: parts[2], Host: Hostname(parts[3])}, nil
}

// DefaultSNI is the server name that mutual TLS between proxies uses for the cluster:
// "outbound_.80_.v1_.reviews.default.svc.cluster.local".
func (c ClusterName) DefaultSNI() string {
	return string(c.Direction) + "_." + strconv.FormatUint(uint64(c.Port), 10) + "_." + c.Subset + "_." + string(c.Host)
}

// ParseSNI reads what DefaultSNI wrote. Gateways of mode AUTO_PASSTHROUGH have clusters of such names.
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
