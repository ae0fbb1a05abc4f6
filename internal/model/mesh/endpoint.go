package mesh

import (
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Health is whether an endpoint should be sent requests.
type Health string

// The health states. The zero value is healthy.
const (
	Healthy   Health = ""
	Unhealthy Health = "UNHEALTHY"
	// Draining endpoints get no new requests but keep the ones they have (terminating and still serving).
	Draining Health = "DRAINING"
)

// Endpoint is one address and port where a service can be reached. It is immutable.
type Endpoint struct {
	// Address is an IP, a DNS name (of a service that proxies resolve), or "unix://PATH". It is empty for an endpoint that is
	// reached only through the gateways of its Network, which knows the way.
	Address string
	// MoreAddresses are further addresses of the same endpoint (dual stack).
	MoreAddresses []string
	// Port is the port on the endpoint; ServicePort is the name of the service's port that it serves.
	Port        uint32
	ServicePort string
	Labels      map[string]string
	// Account is the SPIFFE ID of the workload, "" if unknown.
	Account string
	// Workload is the pod or WorkloadEntry behind it, "" if unknown; Owner the Deployment (or the like) that made it.
	Workload, Owner string
	Namespace       string
	// Hostname is the endpoint's own name below a headless service ("web-0"), "" if it has none.
	Hostname string
	Node     string
	Locality Locality
	Network  Network
	Cluster  ClusterID
	// Weight is the load-balancing weight, at least 1; 0 means 1.
	Weight uint32
	Health Health
	// Confined says that only callers of the endpoint's own cluster may be told of it (Multi-Cluster Services API: its service is
	// not exported there).
	Confined bool
	// TLS says that the endpoint takes mutual TLS from proxies (tlsMode "istio").
	TLS bool
	// TLSDisabled is true if the workload could take mutual TLS but a PeerAuthentication disables it at
	// this port. TLS is false then.
	TLSDisabled bool
}

// HostPort gives "address:port", for sorting and messages.
func (e *Endpoint) HostPort() string { return e.Address + ":" + strconv.FormatUint(uint64(e.Port), 10) }

// ShardKey names who said what the endpoints of a service are: a registry of a cluster, and within it the object
// (one EndpointSlice of several, a ServiceEntry).
type ShardKey struct {
	Provider Provider
	Cluster  ClusterID
	Object   config.Key
}

// Shard is the endpoints of one service as one object lists them. It is immutable; a new one replaces the one with the
// same Service and ShardKey.
type Shard struct {
	Service   ServiceKey
	Key       ShardKey
	Endpoints []*Endpoint
	// Hash is the content hash; see Sealed.
	Hash uint64
}

// Sealed gives the shard with its content hash taken; afterwards it must not be changed.
func (s Shard) Sealed() *Shard {
	s.Hash = contentHash([]any{s.Service, s.Key, HashEndpoints(s.Endpoints)})
	return &s
}

// Workload is something that runs and may be an endpoint of services: a pod or a WorkloadEntry. It is immutable.
type Workload struct {
	Provider  Provider
	Cluster   ClusterID
	Namespace string
	Name      string
	Owner     string
	// Hostname is a pod's own name below the headless service that is named Subdomain ("web-0", "web"); both are empty if it has
	// none.
	Hostname, Subdomain string
	// Addresses are its IPs (or, for a WorkloadEntry, a DNS name or "unix://PATH"), the first one the main one. A WorkloadEntry
	// that is reached only through the gateways of its Network has none.
	Addresses []string
	// Ports maps service port names to the workload's own ports (WorkloadEntry.ports).
	Ports map[string]uint32
	// ContainerPorts are a pod's named container ports, for services whose target port is a name.
	ContainerPorts map[string]uint32
	Labels         map[string]string
	Account        string
	Node           string
	Locality       Locality
	Network        Network
	Weight         uint32
	Health         Health
	TLS            bool
	// Ready is false for pods that are not to get traffic by label selection. WorkloadEntries are ready.
	Ready bool
	From  config.Key
	// Hash is the content hash; see Sealed.
	Hash uint64
}

// MainAddress gives the first of the Addresses, "" if there is none.
func (w *Workload) MainAddress() string {
	if len(w.Addresses) == 0 {
		return ""
	}
	return w.Addresses[0]
}

// Sealed gives the workload with its content hash taken; afterwards it must not be changed.
func (w Workload) Sealed() *Workload {
	w.Hash = contentHash(w)
	return &w
}
