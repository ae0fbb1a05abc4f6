package mesh

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Resolution says how the addresses of a service are found (ServiceEntry.Resolution; Kubernetes services are Static,
// headless ones Passthrough).
type Resolution string

// The resolutions.
const (
	// Static: endpoints are known to the control plane and sent by EDS.
	Static Resolution = "STATIC"
	// DNS: proxies resolve the endpoint names all the time and balance over all addresses (STRICT_DNS).
	DNS Resolution = "DNS"
	// DNSRoundRobin: proxies resolve, and use the first address of each answer (LOGICAL_DNS).
	DNSRoundRobin Resolution = "DNS_ROUND_ROBIN"
	// Passthrough: the caller chose the address; it is used as it is (ORIGINAL_DST).
	Passthrough Resolution = "PASSTHROUGH"
	// DynamicDNS: proxies resolve the name that a request or connection is for (dynamic forward proxy). The host is a wildcard.
	DynamicDNS Resolution = "DYNAMIC_DNS"
	// Alias: another name for the service that ExternalName points to.
	Alias Resolution = "ALIAS"
)

// Provider is the kind of registry that a service or endpoint came from.
type Provider string

// The providers.
const (
	Kubernetes Provider = "Kubernetes"
	External   Provider = "External" // ServiceEntry and WorkloadEntry
	Consul     Provider = "Consul"
)

// ServiceKey names a service: one hostname may exist in several namespaces (ServiceEntries), and is then several services.
type ServiceKey struct {
	Namespace string
	Host      Hostname
}

// Port is one port of a service.
type Port struct {
	Name     string
	Number   uint32
	Protocol Protocol
	// Target is the port on the endpoints as a number, 0 where endpoints say it themselves (named target ports).
	// ServiceEntry.ports[].targetPort, Service.spec.ports[].targetPort.
	Target uint32
	// TargetName is the named target port, resolved against Workload.ContainerPorts; "" where Target says it.
	TargetName string
	// OverridesDialed reports whether calls go to Target although callers dial another port of the same address:
	// ServiceEntry with resolution NONE whose port has a targetPort, also where Target and Number are equal.
	OverridesDialed bool
}

// Service is a hostname with ports that can be called. It is immutable.
type Service struct {
	ServiceKey
	Provider Provider
	Cluster  ClusterID
	// Name is the object's name ("reviews").
	Name string
	// Addresses are the virtual addresses (cluster IPs, ServiceEntry addresses; an IP or a CIDR), in the object's order.
	Addresses []string
	// ClusterAddresses are those of each cluster that has some, where several clusters define the service; else nil. Registries leave
	// it empty.
	ClusterAddresses map[ClusterID][]string
	// Allocates says that the service is to be given virtual addresses if it has none. Allocated are those: what a registry
	// says of them is what its object was told before (ServiceEntry.status.addresses), what the snapshot has is what counts.
	// They are for proxies whose applications ask their agents for names; see view.Key.
	Allocates  bool
	Allocated  []string
	Ports      []Port
	Resolution Resolution
	// MeshExternal services have no sidecars on their endpoints (ServiceEntry MESH_EXTERNAL).
	MeshExternal bool
	// Headless services have no virtual address of their own; callers reach pods by their addresses.
	Headless bool
	// ExportTo is where the service is visible: namespaces, "*" all, "." its own, "~" nowhere.
	// Empty means the mesh's default (MeshConfig.defaultServiceExportTo).
	ExportTo []string
	// Selector chooses Workloads of the namespace by label as endpoints: the pod selector of a Kubernetes Service, the
	// workloadSelector of a ServiceEntry, which selects all if it is empty. Nil: only endpoints that are listed (shards).
	Selector map[string]string
	// SelectsPods and SelectsWorkloadEntries say from which providers' Workloads Selector makes endpoints. A Kubernetes
	// Service takes its pods from EndpointSlices, so only WorkloadEntries; a ServiceEntry takes both.
	SelectsPods, SelectsWorkloadEntries bool
	// AliasOf is the hostname that an Alias stands for.
	AliasOf Hostname
	// Accounts are SPIFFE IDs that may answer for the service besides those of its endpoints (ServiceEntry.subjectAltNames).
	Accounts []string
	// External are the addresses at which the service is reached from outside its cluster, IPs and names
	// (Service.status.loadBalancer.ingress, Service.spec.externalIPs), sorted.
	External []string
	// ExternalPorts are the ports at those addresses by the service's own, where they differ: node ports of a gateway that is
	// reached by way of nodes (traffic.istio.io/nodeSelector).
	ExternalPorts map[uint32]uint32
	Labels        map[string]string
	Created       time.Time
	// NodeLocal says that only endpoints on the caller's node are used (internalTrafficPolicy: Local).
	NodeLocal bool
	// PublishNotReady says that endpoints count although not ready.
	PublishNotReady bool
	// Session is how callers come back to the endpoint that they had.
	Session Session
	// TrafficDistribution is PreferClose and its kin (spec.trafficDistribution, networking.istio.io/traffic-distribution).
	TrafficDistribution string
	// From is the object that the service was read from.
	From config.Key
	// Also are further objects that define the same host, and have added to the service. Registries leave it empty.
	Also []config.Key
	// Hash is the content hash; see Sealed.
	Hash uint64
}

// Sealed gives the service with its content hash taken. Registries seal every service that they emit; afterwards it
// must not be changed.
func (s Service) Sealed() *Service {
	s.Hash = contentHash(s)
	return &s
}

// AppendObjects appends the objects that the service was made of, none if it was made of none.
func (s *Service) AppendObjects(list []config.Key) []config.Key {
	if s.From == (config.Key{}) {
		return list
	}
	return append(append(list, s.From), s.Also...)
}

// Port finds a port by number. Where one number is there twice, as for DNS over UDP and TCP, it is the one that proxies
// handle.
func (s *Service) Port(number uint32) (Port, bool) {
	found := -1
	for i, p := range s.Ports {
		if p.Number == number && (found < 0 || !s.Ports[found].Protocol.Captured()) {
			found = i
		}
	}
	if found < 0 {
		return Port{}, false
	}
	return s.Ports[found], true
}

// Address gives the service's first virtual address, "" if it has none (headless, or without addresses).
func (s *Service) Address() string {
	if s.Headless || len(s.Addresses) == 0 {
		return ""
	}
	return s.Addresses[0]
}

// contentHash hashes a value with its Hash field zero. JSON sorts map keys, so equal values have equal hashes.
func contentHash(v any) uint64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("mesh: hash %T: %v", v, err)) // only plain data is passed in
	}
	return xxhash.Sum64(b)
}
