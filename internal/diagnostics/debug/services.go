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

// distributionNumber returns istiod's number for a traffic distribution: 0 for any, 1 for the same
// zone, 2 for the same node.
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
// is its host, and addresses are listed under its cluster. The result shares the maps and lists of
// s.
func newService(s *mesh.Service) Service {
	out := Service{
		Attributes: Attributes{
			ServiceRegistry: string(
				s.Provider,
			),
			Name:           s.Name,
			Namespace:      s.Namespace,
			Labels:         s.Labels,
			LabelSelectors: s.Selector,
			ExternalName: string(
				s.AliasOf,
			),
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

// Endpoint is an endpoint in istiod's form of endpointShardz.
type Endpoint struct {
	Labels               map[string]string
	Addresses            []string
	ServicePortName      string
	LegacyClusterPortKey uint32 // the service's port number
	ServiceAccount       string
	Network              string
	Locality             EndpointLocality
	EndpointPort         uint32
	LbWeight             uint32
	TLSMode              string
	Namespace            string
	WorkloadName         string
	HostName             string
	SubDomain            string
	HealthStatus         int
	NodeName             string
}

// EndpointLocality is the locality and the cluster of an endpoint in istiod's form.
type EndpointLocality struct{ Label, ClusterID string }

// healthNumber returns istiod's number for a health status: 2 for unhealthy, 3 for draining, and
// otherwise 1.
func healthNumber(h mesh.Health) int {
	switch h {
	case mesh.Unhealthy:
		return 2
	case mesh.Draining:
		return 3
	default:
		return 1
	}
}

// newEndpoint converts an endpoint of the service s to istiod's form of endpointShardz.
// LegacyClusterPortKey is the service's port of the name e.ServicePort, or 0 if it has none.
// TLSMode is "istio" if e accepts mutual TLS, else "disabled". SubDomain is the name of s if e has
// a hostname. The result shares the labels of e.
func newEndpoint(s *mesh.Service, e *mesh.Endpoint) Endpoint {
	out := Endpoint{
		Labels:          e.Labels,
		Addresses:       append([]string{e.Address}, e.MoreAddresses...),
		ServicePortName: e.ServicePort,
		ServiceAccount:  e.Account,
		Network:         string(e.Network),
		Locality:        EndpointLocality{e.Locality.String(), string(e.Cluster)},
		EndpointPort:    e.Port,
		LbWeight:        e.Weight,
		TLSMode:         "disabled",
		Namespace:       e.Namespace,
		WorkloadName: cmp.Or(
			e.Owner,
			e.Workload,
		),
		HostName:     e.Hostname,
		HealthStatus: healthNumber(e.Health),
		NodeName:     e.Node,
	}
	if e.Hostname != "" {
		out.SubDomain = s.Name
	}
	if e.TLS {
		out.TLSMode = "istio"
	}
	for _, port := range s.Ports {
		if port.Name == e.ServicePort {
			out.LegacyClusterPortKey = port.Number
		}
	}
	return out
}

// ServicePort lists all endpoints of one port of a service, as in endpointz.
type ServicePort struct {
	// Service is HOSTNAME:PORT-NAME.
	Service   string     `json:"svc"`
	Endpoints []Endpoint `json:"ep"`
}

// endpointz serves all endpoints by service and port, ports without endpoints included. With
// "brief" in the query it serves a line of text per endpoint.
func (p *Pages) endpointz(q question) (answer, error) {
	if !q.Has("brief") {
		return jsonAnswer(q, p.RegisteredEndpoints(q.caller))
	}
	s := p.Snapshot()
	var brief strings.Builder
	for _, svc := range s.Services() {
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			brief.WriteString(
				string(svc.Host) + ":" + e.ServicePort + " " + e.HostPort() + " " + e.Locality.String() + "\n",
			)
		}
	}
	return textAnswer(brief.String())
}

// RegisteredEndpoints returns the endpoints of the services that the caller may read, by service and
// port, ports without endpoints included.
func (p *Pages) RegisteredEndpoints(c Caller) []ServicePort {
	s := p.Snapshot()
	list := []ServicePort{}
	for _, svc := range s.Services() {
		if !c.CanRead(svc.Namespace) {
			continue
		}
		byPort := map[string][]Endpoint{}
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			byPort[e.ServicePort] = append(byPort[e.ServicePort], newEndpoint(svc, e))
		}
		for _, x := range svc.Ports {
			list = append(list, ServicePort{string(svc.Host) + ":" + x.Name, slices.Concat([]Endpoint{}, byPort[x.Name])})
		}
	}
	return list
}

// shards are the endpoints of one service by the registry and cluster that report them, as in
// endpointShardz.
type shards struct {
	Shards          map[string][]Endpoint `json:"Shards"`
	ServiceAccounts map[string]struct{}   `json:"ServiceAccounts"`
}

// addEndpoint adds an endpoint of svc to a shard, and its account to the service accounts.
func (x shards) addEndpoint(svc *mesh.Service, shard string, e *mesh.Endpoint) {
	x.Shards[shard] = append(x.Shards[shard], newEndpoint(svc, e))
	if e.Account != "" {
		x.ServiceAccounts[e.Account] = struct{}{}
	}
}

// shardMember identifies an endpoint of a service in a shard and after the merge of all shards,
// which may have given it another port name.
type shardMember struct {
	address string
	port    uint32
	network mesh.Network
}

// memberOf returns the shardMember of e.
func memberOf(e *mesh.Endpoint) shardMember { return shardMember{e.Address, e.Port, e.Network} }

// endpointShardz serves all endpoints by hostname, namespace and shard. An endpoint found by
// selector is not in a shard of the service. It is listed under its own cluster and the service's
// registry or, since services of Consul have no selectors, that of ServiceEntries.
func (p *Pages) endpointShardz(q question) (answer, error) {
	s := p.Snapshot()
	out := map[string]map[string]shards{}
	for _, svc := range s.Services() {
		x := shards{Shards: map[string][]Endpoint{}, ServiceAccounts: map[string]struct{}{}}
		listed := map[shardMember]bool{}
		for _, shard := range s.Shards(svc.ServiceKey) {
			for _, e := range shard.Endpoints {
				listed[memberOf(e)] = true
				x.addEndpoint(svc, string(shard.Key.Provider)+"/"+string(shard.Key.Cluster), e)
			}
		}
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			if listed[memberOf(e)] {
				continue
			}
			provider := svc.Provider
			if provider == mesh.Consul {
				provider = mesh.External
			}
			x.addEndpoint(svc, string(provider)+"/"+string(e.Cluster), e)
		}
		if out[string(svc.Host)] == nil {
			out[string(svc.Host)] = map[string]shards{}
		}
		out[string(svc.Host)][svc.Namespace] = x
	}
	return jsonAnswer(q, out)
}

// sortedKeys returns the keys of m, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
