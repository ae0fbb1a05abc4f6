package mesh

import (
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Resolution is how proxies find the addresses of a service (ServiceEntry.Resolution). Kubernetes
// Services are Static, headless ones Passthrough.
type Resolution string

// The resolutions.
const (
	// Static services have endpoints that are known to the control plane and sent by EDS.
	Static Resolution = "STATIC"
	// DNS makes proxies resolve the endpoint names periodically and balance over all addresses
	// (STRICT_DNS).
	DNS Resolution = "DNS"
	// DNSRoundRobin makes proxies use the first address of each DNS answer (LOGICAL_DNS).
	DNSRoundRobin Resolution = "DNS_ROUND_ROBIN"
	// Passthrough forwards to the address that the caller chose (ORIGINAL_DST).
	Passthrough Resolution = "PASSTHROUGH"
	// DynamicDNS makes proxies resolve the host of each request or connection (dynamic forward
	// proxy). The service's host is a wildcard.
	DynamicDNS Resolution = "DYNAMIC_DNS"
	// Alias is another name for the host of an ExternalName Service.
	Alias Resolution = "ALIAS"
)

// Provider is the kind of registry of a service or endpoint. A service from a ServiceEntry that a
// platform reported has the name of the platform ("ZooKeeper").
type Provider string

// The providers that are not names of platforms.
const (
	Kubernetes Provider = "Kubernetes"
	External   Provider = "External" // ServiceEntry and WorkloadEntry
	Consul     Provider = "Consul"
)

// IsEntry reports whether services of the provider are made from ServiceEntries, which users or
// platforms wrote: all but Kubernetes, Consul and "".
func (p Provider) IsEntry() bool { return p != "" && p != Kubernetes && p != Consul }

// ServiceKey identifies a service. The same hostname in several namespaces (ServiceEntries) is
// several services.
type ServiceKey struct {
	Namespace string
	Host      Hostname
}

// Port is one port of a service.
type Port struct {
	Name     string
	Number   uint32
	Protocol Protocol
	// Target is the numeric port of the endpoints, or 0 if each endpoint has its own (named target
	// ports). It is ServiceEntry.ports[].targetPort or Service.spec.ports[].targetPort.
	Target uint32
	// TargetName is the named target port, which is looked up in Workload.ContainerPorts; "" if
	// Target is set.
	TargetName string
	// OverridesDialed reports whether calls are sent to Target although callers dial another port
	// of the same address: ServiceEntry with resolution NONE whose port has a targetPort, also if
	// Target and Number are equal.
	OverridesDialed bool
}

// ConnectStrategyAnnotation is the annotation of ServiceEntries for Service.RacesAddresses. Istio reads
// it, but does not list it in its API.
const ConnectStrategyAnnotation = "istio.io/connect-strategy"

// Service is a hostname with ports. It is immutable.
type Service struct {
	ServiceKey
	Provider Provider
	Cluster  ClusterID
	// Name is the object's name ("reviews").
	Name string
	// Addresses are the virtual addresses (cluster IPs or ServiceEntry addresses; an IP address or
	// CIDR), in the object's order.
	Addresses []string
	// ClusterAddresses are the addresses per cluster, if several clusters define the service;
	// otherwise nil. Registries leave it empty.
	ClusterAddresses map[ClusterID][]string
	// Allocates is set if the service needs allocated virtual addresses in case it has none.
	// Allocated are those addresses. From a registry they are the ones in the object's status
	// (ServiceEntry.status.addresses), in a snapshot those in use. They are sent only to proxies
	// whose applications resolve names through their agents; see view.Key.
	Allocates  bool
	Allocated  []string
	Ports      []Port
	Resolution Resolution
	// MeshExternal is set if the endpoints have no sidecars (ServiceEntry MESH_EXTERNAL).
	MeshExternal bool
	// Headless is set if the service has no virtual address, so that callers connect to the
	// addresses of pods.
	Headless bool
	// ExportTo lists the namespaces that see the service: "*" is all, "." its own, "~" none. If
	// empty, the mesh's default applies (MeshConfig.defaultServiceExportTo).
	ExportTo []string
	// Selector selects Workloads of the namespace by label as endpoints: the selector of a
	// Kubernetes Service, or the workloadSelector of a ServiceEntry, where empty matches all. If
	// nil, only listed endpoints are used (shards).
	Selector map[string]string
	// SelectsPods and SelectsWorkloadEntries determine the kinds of Workloads that Selector
	// matches. The pods of a Kubernetes Service come from EndpointSlices, so its selector matches
	// only WorkloadEntries; that of a ServiceEntry matches both.
	SelectsPods, SelectsWorkloadEntries bool
	// PoolPorts are the ports at which each selected workload serves the service, which has one port
	// then: an InferencePool. A picker chooses the endpoint of each request. Nil for other services.
	PoolPorts []uint32
	// AliasOf is the target hostname of an Alias.
	AliasOf Hostname
	// RemoteHost is the host by which gateways of other networks know the service, if that is not Host.
	// Connections through them have it in their SNI (SNI).
	RemoteHost Hostname
	// Accounts are SPIFFE IDs that are accepted for the service in addition to its endpoints'
	// accounts (ServiceEntry.subjectAltNames).
	Accounts []string
	// External are the sorted IP addresses and names of the service outside its cluster
	// (Service.status.loadBalancer.ingress, Service.spec.externalIPs).
	External []string
	// ExternalPorts maps the service's ports to the ports of these addresses, if they differ: the
	// node ports of a gateway that is reached through nodes (traffic.istio.io/nodeSelector).
	ExternalPorts map[uint32]uint32
	Labels        map[string]string
	Created       time.Time
	// NodeLocal limits callers to endpoints on their own node (internalTrafficPolicy: Local).
	NodeLocal bool
	// Type is the type of a Kubernetes Service, for debug pages. It is empty for other services.
	Type string `json:",omitempty"`
	// PublishNotReady includes endpoints that are not ready.
	PublishNotReady bool
	// Session configures how callers return to the same endpoint.
	Session Session
	// TrafficDistribution is the preference for near endpoints (spec.trafficDistribution,
	// networking.istio.io/traffic-distribution).
	TrafficDistribution string
	// RacesAddresses makes proxies try all addresses that DNS returns for a host at the same time, and
	// use the first that accepts the connection. It applies to the resolution DNS only.
	RacesAddresses bool `json:",omitempty"`
	// SettingsOf is the usual host of a service of the cluster set whose cluster does not have the
	// Service. A snapshot then uses the settings of that Service in another cluster (WithImport).
	SettingsOf Hostname `json:",omitempty"`
	// From is the object that defines the service.
	From config.Key
	// Also are further objects that define the same host and have added to the service. Registries
	// leave it empty.
	Also []config.Key
	// Hash is the content hash; see Sealed.
	Hash uint64
}

// Sealed returns a copy with its content hash. Registries seal every service before they emit it.
// s.Hash must be 0, because it would enter the hash. The copy shares maps and lists with s and must
// not be modified.
func (s Service) Sealed() *Service {
	s.Hash = contentHash(s)
	return &s
}

// WithImport returns a service of the cluster set with the settings and ports of the Kubernetes
// Service s, sealed. Its key, cluster, addresses and object are those of i, the service of a
// ServiceImport. It has no selector, because s selects the workloads.
func (s *Service) WithImport(i *Service) *Service {
	out := *s
	out.ServiceKey, out.Cluster, out.Addresses, out.From = i.ServiceKey, i.Cluster, i.Addresses, i.From
	out.Selector, out.SelectsPods, out.SelectsWorkloadEntries = nil, false, false
	out.External, out.ExternalPorts, out.Hash = nil, nil, 0
	return out.Sealed()
}

// IsExportedTo reports whether the service is visible in a namespace: its exportTo, or if that is
// empty defaults, contains the namespace by name, "*", or "." for the service's own. If both are
// empty it returns true. "~" without "*" hides the service from all namespaces.
func (s *Service) IsExportedTo(namespace string, defaults []string) bool {
	to := s.exports(defaults)
	return s.IsPublic(defaults) || !slices.Contains(to, "~") &&
		(slices.Contains(to, namespace) || s.Namespace == namespace && slices.Contains(to, "."))
}

// IsPublic reports whether the service is visible in all namespaces. defaults are used if it has no
// exportTo.
func (s *Service) IsPublic(defaults []string) bool {
	to := s.exports(defaults)
	return len(to) == 0 || slices.Contains(to, "*")
}

// exports returns the exportTo of the service, or if that is empty defaults.
func (s *Service) exports(defaults []string) []string {
	if len(s.ExportTo) == 0 {
		return defaults
	}
	return s.ExportTo
}

// AppendObjects appends the objects that define the service, From first. It appends none if From is
// not set.
func (s *Service) AppendObjects(list []config.Key) []config.Key {
	if s.From == (config.Key{}) {
		return list
	}
	return append(append(list, s.From), s.Also...)
}

// SNI returns the server name of mutual TLS with a cluster of the service: DefaultSNI of n, with
// RemoteHost as its host if set.
func (s *Service) SNI(n ClusterName) string {
	if s.RemoteHost != "" {
		n.Host = s.RemoteHost
	}
	return n.DefaultSNI()
}

// Port returns the port with a number, and whether there is one. If several ports have the number,
// as for DNS over UDP and TCP, it returns the first that proxies handle, or the last if they handle
// none.
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

// ClusterPort returns the port to which a cluster of the service sends, and whether there is one.
// For OutboundUDP it is the first UDP port with the number, for other directions the result of
// Port. The host of c is ignored.
func (s *Service) ClusterPort(c ClusterName) (Port, bool) {
	if c.Direction != OutboundUDP {
		return s.Port(c.Port)
	}
	for _, p := range s.Ports {
		if p.Number == c.Port && p.Protocol == UDP {
			return p, true
		}
	}
	return Port{}, false
}

// Address returns the first virtual address, or "" if the service is headless or has none.
func (s *Service) Address() string {
	if s.Headless || len(s.Addresses) == 0 {
		return ""
	}
	return s.Addresses[0]
}
