package mesh

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/contenthash"
)

// Health determines whether an endpoint receives requests.
type Health string

// The health states. The zero value is healthy.
const (
	Healthy   Health = ""
	Unhealthy Health = "UNHEALTHY"
	// Draining endpoints receive no new sessions but keep existing ones (terminating and still
	// serving).
	Draining Health = "DRAINING"
)

// Compare orders health states for use: Healthy first, then Draining, then all others.
func (h Health) Compare(other Health) int { return cmp.Compare(h.rank(), other.rank()) }

// rank returns 0 for Healthy, 1 for Draining and 2 for all others.
func (h Health) rank() int {
	switch h {
	case Healthy:
		return 0
	case Draining:
		return 1
	default:
		return 2
	}
}

// Endpoint is one address and port where a service can be reached. It is immutable.
type Endpoint struct {
	// Address is an IP address, a DNS name (for services that proxies resolve), or "unix://PATH".
	// It is empty for an endpoint that is reached only through the gateways of its Network.
	Address string
	// MoreAddresses are further addresses of the same endpoint (dual stack).
	MoreAddresses []string
	// Port is the port of the endpoint. ServicePort is the name of the service port that it serves.
	Port        uint32
	ServicePort string
	Labels      map[string]string
	// Account is the SPIFFE ID of the workload, "" if unknown.
	Account string
	// Workload is the name of the pod or WorkloadEntry, "" if unknown. Owner is the name of the
	// Deployment, or of another controller, that created it.
	Workload, Owner string
	// Namespace is that of the workload if it is known, otherwise that of the object that lists the
	// endpoint.
	Namespace string
	// Hostname is the endpoint's name below a headless service ("web-0"), or "".
	Hostname string
	// Node is the name of the node on which the workload runs, "" if unknown.
	Node     string
	Locality Locality
	Network  Network
	Cluster  ClusterID
	// Weight is the load-balancing weight; 0 means 1.
	Weight uint32
	Health Health
	// Confined limits the endpoint to callers of its own cluster (Multi-Cluster Services API: its
	// service is not exported).
	Confined bool
	// TLS is set if the endpoint accepts mutual TLS from proxies (tlsMode "istio").
	TLS bool
	// TLSDisabled is true if the workload could take mutual TLS but a PeerAuthentication disables it at
	// this port. TLS is false then.
	TLSDisabled bool
}

// HostPort returns "address:port", for sorting and messages. An IPv6 address has no brackets in it.
func (e *Endpoint) HostPort() string { return e.Address + ":" + strconv.FormatUint(uint64(e.Port), 10) }

// Equal reports whether all fields of e and o are equal. An empty list or map is equal to nil.
func (e *Endpoint) Equal(o *Endpoint) bool {
	return e == o || e.Address == o.Address && e.Port == o.Port && e.ServicePort == o.ServicePort &&
		e.Account == o.Account && e.Workload == o.Workload && e.Owner == o.Owner && e.Namespace == o.Namespace &&
		e.Hostname == o.Hostname && e.Node == o.Node && e.Locality == o.Locality && e.Network == o.Network &&
		e.Cluster == o.Cluster && e.Weight == o.Weight && e.Health == o.Health && e.Confined == o.Confined &&
		e.TLS == o.TLS && e.TLSDisabled == o.TLSDisabled &&
		slices.Equal(e.MoreAddresses, o.MoreAddresses) && maps.Equal(e.Labels, o.Labels)
}

// ShardKey identifies the origin of a service's endpoints: a registry of a cluster, and the object
// within it (an EndpointSlice or a ServiceEntry).
type ShardKey struct {
	Provider Provider
	Cluster  ClusterID
	Object   config.Key
}

// Shard contains the endpoints that one object lists for a service. It is immutable; a new one
// replaces that with the same Service and Key.
type Shard struct {
	Service   ServiceKey
	Key       ShardKey
	Endpoints []*Endpoint
	// Hash is the content hash; see Sealed.
	Hash uint64
}

// Sealed returns a copy with its content hash. The endpoints are shared with s, and the copy must
// not be modified.
func (s Shard) Sealed() *Shard {
	s.Hash = contenthash.Of(func(b *contenthash.Buffer) {
		b.Text(s.Service.Namespace)
		b.Text(string(s.Service.Host))
		b.Text(string(s.Key.Provider))
		b.Text(string(s.Key.Cluster))
		appendKey(b, s.Key.Object)
		b.Uint64(HashEndpoints(s.Endpoints))
	})
	return &s
}

// Workload is a pod or WorkloadEntry, which can be an endpoint of services. It is immutable. Fields
// without a comment have the same meaning as in Endpoint.
type Workload struct {
	Provider  Provider
	Cluster   ClusterID
	Namespace string
	Name      string
	Owner     string
	// Hostname is a pod's name below the headless service Subdomain ("web-0", "web"). Both are
	// empty if it has none.
	Hostname, Subdomain string
	// Addresses are its IP addresses (for a WorkloadEntry also a DNS name or "unix://PATH"), the
	// main one first. It is empty for a WorkloadEntry that is reached only through the gateways of
	// its Network.
	Addresses []string
	// Ports maps service port names to the workload's ports (WorkloadEntry.ports).
	Ports map[string]uint32
	// ContainerPorts are a pod's named container ports, for services with a named target port.
	ContainerPorts NamedPorts
	Labels         map[string]string
	Account        string
	Node           string
	Locality       Locality
	Network        Network
	Weight         uint32
	Health         Health
	TLS            bool
	// Ready is false for pods that must not receive traffic through label selectors.
	// WorkloadEntries are ready unless a health check fails.
	Ready bool
	// From is the Pod or WorkloadEntry.
	From config.Key
	// Hash is the content hash; see Sealed.
	Hash uint64
}

// MainAddress returns the first of the Addresses, or "".
func (w *Workload) MainAddress() string {
	if len(w.Addresses) == 0 {
		return ""
	}
	return w.Addresses[0]
}

// Sealed returns a copy with its content hash. The copy shares its maps and addresses with w, and
// must not be modified.
func (w Workload) Sealed() *Workload {
	w.Hash = contenthash.Of(w.appendTo)
	return &w
}
