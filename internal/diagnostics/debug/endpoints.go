package debug

import (
	"cmp"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

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
// WorkloadName is the owner, or else the workload. TLSMode is "istio" if e accepts mutual TLS, else
// "disabled". SubDomain is the name of s if e has a hostname; the labels are shared with e.
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

// endpointz serves RegisteredEndpoints as JSON: endpoints by service and port. With "brief" in the
// query it serves a line of text per endpoint, of all services whatever the caller is.
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

// RegisteredEndpoints returns the endpoints of the services that the caller may read, by service
// and port. Ports without endpoints are included, with Endpoints that are empty but not nil.
// Endpoints of a port that the service does not have are left out.
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
			list = append(list, ServicePort{string(svc.Host) + ":" + x.Name, append([]Endpoint{}, byPort[x.Name]...)})
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
