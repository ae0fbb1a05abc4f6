package debug

import (
	"net/http"
	"strings"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// Service is a service in istiod's form of registryz.
type Service struct {
	Attributes          Attributes `json:"Attributes"`
	Ports               []Port     `json:"ports"`
	CreationTime        string     `json:"creationTime,omitempty"`
	Hostname            string     `json:"hostname"`
	ClusterVIPs         VIPs       `json:"clusterVIPs"`
	DefaultAddress      string     `json:"defaultAddress,omitempty"`
	Resolution          int        `json:"Resolution"`
	MeshExternal        bool       `json:"MeshExternal"`
	ServiceAccounts     []string   `json:"serviceAccounts,omitempty"`
	ResourceVersion     string     `json:"ResourceVersion"`
	TrafficDistribution string     `json:"trafficDistribution,omitempty"`
}

// Attributes are what istiod keeps beside a service.
type Attributes struct {
	ServiceRegistry string            `json:"ServiceRegistry"`
	Name            string            `json:"Name"`
	Namespace       string            `json:"Namespace"`
	Labels          map[string]string `json:"Labels,omitempty"`
	ExportTo        map[string]any    `json:"ExportTo,omitempty"`
	LabelSelectors  map[string]string `json:"LabelSelectors,omitempty"`
}

// VIPs are virtual addresses by cluster.
type VIPs struct {
	Addresses map[string][]string `json:"Addresses,omitempty"`
}

// Port is a port of a Service.
type Port struct {
	Name     string `json:"name,omitempty"`
	Port     uint32 `json:"port"`
	Protocol string `json:"protocol"`
}

// DetectedProtocol is istiod's name for the protocol of a port that declares none.
const DetectedProtocol = "UnsupportedProtocol"

// resolutionNumber is istiod's number of a resolution: ClientSideLB, DNSLB, Passthrough, DNSRoundRobinLB, Alias.
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
	default:
		return 0
	}
}

func (p *pages) registryz(w http.ResponseWriter, _ *http.Request) {
	list := []Service{}
	for _, s := range p.Snapshot().Services() {
		out := Service{
			Attributes: Attributes{
				ServiceRegistry: string(s.Provider), Name: s.Name, Namespace: s.Namespace, Labels: s.Labels, LabelSelectors: s.Selector,
			},
			Hostname: string(s.Host), DefaultAddress: s.Address(), Resolution: resolutionNumber(s.Resolution),
			MeshExternal: s.MeshExternal, ServiceAccounts: s.Accounts, TrafficDistribution: s.TrafficDistribution,
		}
		if !s.Created.IsZero() {
			out.CreationTime = s.Created.UTC().Format("2006-01-02T15:04:05Z")
		}
		for _, to := range s.ExportTo {
			if out.Attributes.ExportTo == nil {
				out.Attributes.ExportTo = map[string]any{}
			}
			out.Attributes.ExportTo[to] = struct{}{}
		}
		if len(s.Addresses) > 0 {
			out.ClusterVIPs.Addresses = map[string][]string{string(s.Cluster): s.Addresses}
		}
		for _, x := range s.Ports {
			protocol := string(x.Protocol)
			if x.Protocol == mesh.Auto {
				protocol = DetectedProtocol
			}
			out.Ports = append(out.Ports, Port{Name: x.Name, Port: x.Number, Protocol: protocol})
		}
		list = append(list, out)
	}
	writeJSON(w, list)
}

// servicePort is all endpoints of one port of a service (endpointz).
type servicePort struct {
	Service   string           `json:"svc"`
	Endpoints []*mesh.Endpoint `json:"ep"`
}

func (p *pages) endpointz(w http.ResponseWriter, r *http.Request) {
	s := p.Snapshot()
	list := []servicePort{}
	for _, svc := range s.Services() {
		byPort := map[string][]*mesh.Endpoint{}
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			byPort[e.ServicePort] = append(byPort[e.ServicePort], e)
		}
		for _, x := range svc.Ports {
			list = append(list, servicePort{Service: string(svc.Host) + ":" + x.Name, Endpoints: byPort[x.Name]})
		}
	}
	if !r.URL.Query().Has("brief") {
		writeJSON(w, list)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	var b strings.Builder
	for _, x := range list {
		for _, e := range x.Endpoints {
			b.WriteString(x.Service + " " + e.HostPort() + " " + e.Locality.String() + "\n")
		}
	}
	_, _ = w.Write([]byte(b.String())) // the client went away
}

// shards is the endpoints of one service by namespace and shard (endpointShardz).
type shards struct {
	Shards          map[string][]*mesh.Endpoint `json:"Shards"`
	ServiceAccounts map[string]any              `json:"ServiceAccounts"`
}

func (p *pages) endpointShardz(w http.ResponseWriter, _ *http.Request) {
	s := p.Snapshot()
	out := map[string]map[string]shards{}
	for _, svc := range s.Services() {
		x := shards{Shards: map[string][]*mesh.Endpoint{}, ServiceAccounts: map[string]any{}}
		for _, shard := range s.Shards(svc.ServiceKey) {
			name := string(shard.Key.Provider) + "/" + string(shard.Key.Cluster)
			x.Shards[name] = append(x.Shards[name], shard.Endpoints...)
			for _, e := range shard.Endpoints {
				if e.Account != "" {
					x.ServiceAccounts[e.Account] = struct{}{}
				}
			}
		}
		if out[string(svc.Host)] == nil {
			out[string(svc.Host)] = map[string]shards{}
		}
		out[string(svc.Host)][svc.Namespace] = x
	}
	writeJSON(w, out)
}
