package debug

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Service is a service in istiod's form of registryz.
type Service struct {
	Attributes      Attributes       `json:"Attributes"`
	Ports           []RegisteredPort `json:"ports"`
	ServiceAccounts []string         `json:"serviceAccounts,omitempty"`
	CreationTime    time.Time        `json:"creationTime"`
	Hostname        string           `json:"hostname"`
	ClusterVIPs     VIPs             `json:"clusterVIPs"`
	DefaultAddress  string           `json:"defaultAddress,omitempty"`
	// AutoAllocatedIPv4Address and AutoAllocatedIPv6Address are the virtual addresses allocated to
	// a host without an address of its own. DNS proxying returns them to clients.
	AutoAllocatedIPv4Address string `json:"autoAllocatedIPv4Address,omitempty"`
	AutoAllocatedIPv6Address string `json:"autoAllocatedIPv6Address,omitempty"`
	Resolution               int    `json:"Resolution"`
	MeshExternal             bool   `json:"MeshExternal"`
	ResourceVersion          string `json:"ResourceVersion"`
}

// Attributes are the attributes of a service in istiod's form.
type Attributes struct {
	ServiceRegistry          string              `json:"ServiceRegistry"`
	Name                     string              `json:"Name"`
	Namespace                string              `json:"Namespace"`
	Labels                   map[string]string   `json:"Labels"`
	ExportTo                 map[string]struct{} `json:"ExportTo"`
	LabelSelectors           map[string]string   `json:"LabelSelectors"`
	Aliases                  []namespacedName    `json:"Aliases"`
	ClusterExternalAddresses VIPs                `json:"ClusterExternalAddresses"`
	// ClusterExternalPorts maps each cluster to the ports at its external addresses, by the port of
	// the service.
	ClusterExternalPorts     map[string]map[uint32]uint32 `json:"ClusterExternalPorts"`
	Type                     string                       `json:"Type"`
	ExternalName             string                       `json:"ExternalName"`
	NodeLocal                bool                         `json:"NodeLocal"`
	TrafficDistribution      int                          `json:"TrafficDistribution"`
	ObjectName               string                       `json:"ObjectName"`
	PublishNotReadyAddresses bool                         `json:"PublishNotReadyAddresses"`
}

// VIPs are virtual addresses by cluster.
type VIPs struct {
	Addresses map[string][]string `json:"Addresses"`
}

// RegisteredPort is a port of a Service.
type RegisteredPort struct {
	Name     string `json:"name,omitempty"`
	Port     uint32 `json:"port"`
	Protocol string `json:"protocol"`
}

// DetectedProtocol is istiod's name for the protocol of a port without a declared protocol.
const DetectedProtocol = "UnsupportedProtocol"

// unspecified is the address that istiod shows for a service without one.
const unspecified = "0.0.0.0"

// resolutionNumber returns istiod's number for a resolution. From 0 the numbers are ClientSideLB,
// DNSLB, Passthrough, DNSRoundRobinLB, Alias and DynamicDNS. Others are 0.
func resolutionNumber(r mesh.Resolution) int {
	switch r {
	case mesh.DNS:
		return 1
	case mesh.Passthrough:
		return 2
	case mesh.DNSRoundRobin:
		return 3
	case mesh.Alias:
		return 4
	case mesh.DynamicDNS:
		return 5
	default:
		return 0
	}
}

// distributionNumber returns istiod's number for a traffic distribution. PreferClose and
// PreferSameZone are 1 (the same zone), PreferSameNode is 2 (the same node), and all others are 0
// (any).
func distributionNumber(text string) int {
	switch text {
	case "PreferClose", "PreferSameZone":
		return 1
	case "PreferSameNode":
		return 2
	default:
		return 0
	}
}

// newPort converts a port to istiod's form. The protocol of a port without a declared one is
// DetectedProtocol.
func newPort(p mesh.Port) RegisteredPort {
	protocol := string(p.Protocol)
	if p.Protocol == mesh.Auto {
		protocol = DetectedProtocol
	}
	return RegisteredPort{Name: p.Name, Port: p.Number, Protocol: protocol}
}

// newService converts a service to istiod's form of registryz. The name of a ServiceEntry's service
// is its host, and addresses are listed under its cluster. Without an address, DefaultAddress is
// the unspecified address. The result shares the maps and lists of s.
func newService(s *mesh.Service) Service {
	out := Service{
		Attributes: Attributes{
			ServiceRegistry: string(
				s.Provider,
			),
			Name:                     s.Name,
			Namespace:                s.Namespace,
			Labels:                   s.Labels,
			LabelSelectors:           s.Selector,
			Type:                     s.Type,
			ExternalName:             string(s.AliasOf),
			NodeLocal:                s.NodeLocal,
			TrafficDistribution:      distributionNumber(s.TrafficDistribution),
			ObjectName:               s.From.Name,
			PublishNotReadyAddresses: s.PublishNotReady,
		},
		ServiceAccounts: s.Accounts,
		CreationTime:    s.Created.UTC(),
		Hostname:        string(s.Host),
		DefaultAddress: cmp.Or(
			s.Address(),
			unspecified,
		),
		Resolution:   resolutionNumber(s.Resolution),
		MeshExternal: s.MeshExternal,
	}
	if s.Provider.IsEntry() {
		out.Attributes.Name = string(s.Host)
	}
	for _, to := range s.ExportTo {
		if out.Attributes.ExportTo == nil {
			out.Attributes.ExportTo = map[string]struct{}{}
		}
		out.Attributes.ExportTo[to] = struct{}{}
	}
	if len(s.External) > 0 {
		out.Attributes.ClusterExternalAddresses.Addresses = map[string][]string{string(s.Cluster): s.External}
	}
	if s.ExternalPorts != nil {
		out.Attributes.ClusterExternalPorts = map[string]map[uint32]uint32{string(s.Cluster): s.ExternalPorts}
	}
	if len(s.Addresses) > 0 {
		out.ClusterVIPs.Addresses = map[string][]string{string(s.Cluster): s.Addresses}
	}
	for _, a := range s.Allocated {
		if strings.Contains(a, ":") {
			out.AutoAllocatedIPv6Address = a
		} else {
			out.AutoAllocatedIPv4Address = a
		}
	}
	for _, x := range s.Ports {
		out.Ports = append(out.Ports, newPort(x))
	}
	return out
}

// registryz serves all services.
func (p *Pages) registryz(q question) (answer, error) {
	return jsonAnswer(q, p.RegisteredServices(q.caller))
}

// RegisteredServices returns the services that the caller may read, sorted by hostname. Without
// any, the list is empty, not nil.
func (p *Pages) RegisteredServices(c Caller) []Service {
	list := []Service{}
	for _, s := range p.Snapshot().Services() {
		if c.CanRead(s.Namespace) {
			list = append(list, newService(s))
		}
	}
	return list
}

// sortedKeys returns the keys of m, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
