package endpoint

import (
	"fmt"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Generator makes the assignments of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	assignments *memo.Table[Input, *resource.Resource]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{assignments: memo.New[Input, resource.Resource]()}
}

// Named gives the assignment of a cluster as the View's proxies are sent it. It is never nil: an empty assignment for a
// cluster that nobody knows lets Envoy go on, where no answer would leave the cluster warming.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	cluster, err := mesh.ParseClusterName(name)
	if err != nil || cluster.String() != name || !current(v, cluster) {
		return encoded(&endpointv3.ClusterLoadAssignment{ClusterName: name})
	}
	return g.assignments.Do(InputFor(v, v.Service(cluster.Host), cluster), encodedAssignment)
}

// Affected gives those of the names whose assignments a change may alter. Names whose clusters are gone are not among
// them: until Envoy is told so it goes on with the endpoints that it has, and no request is lost in between.
func (g *Generator) Affected(v *view.View, d snapshot.Delta, names []string) []string {
	var hosts map[mesh.Hostname]struct{}
	if !d.All && len(d.Configs) == 0 {
		hosts = make(map[mesh.Hostname]struct{}, len(d.Services)+len(d.Endpoints))
		for k := range d.Services {
			hosts[k.Host] = struct{}{}
		}
		for k := range d.Endpoints {
			hosts[k.Host] = struct{}{}
		}
	}
	var affected []string
	for _, name := range names {
		if hosts != nil && !ofAny(name, hosts) {
			continue
		}
		cluster, err := mesh.ParseClusterName(name)
		if err != nil {
			continue
		}
		if _, changed := hosts[cluster.Host]; (changed || hosts == nil) && current(v, cluster) {
			affected = append(affected, name)
		}
	}
	return affected
}

// Computed is how many assignments were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.assignments.Computed() }

// fewHosts is how many hosts are looked for in each name; of more, names are taken apart to find theirs.
const fewHosts = 4

// ofAny says whether a cluster may be one of the hosts. It is only there to be quick: a change of one service's endpoints
// is asked of thousands of names.
func ofAny(name string, hosts map[mesh.Hostname]struct{}) bool {
	if len(hosts) > fewHosts {
		return true
	}
	for h := range hosts {
		if strings.HasSuffix(name, string(h)) {
			return true
		}
	}
	return false
}

// current says whether the View has an EDS cluster of that name. It asks the same questions as the cluster room, which
// makes them.
func current(v *view.View, cluster mesh.ClusterName) bool {
	if cluster.Direction != mesh.Outbound {
		return false
	}
	svc := v.Service(cluster.Host)
	if svc == nil || !ByEDS(svc, v.Key.Type) {
		return false
	}
	if port, ok := svc.Port(cluster.Port); !ok || !port.Protocol.Captured() {
		return false
	}
	if cluster.Subset == "" {
		return true
	}
	rule := v.DestinationRule(cluster.Host)
	return rule != nil && policy.Subset(rule.Spec, cluster.Subset) != nil
}

// ByEDS says whether the proxies are told the endpoints of a service. Callers of a Passthrough service chose the endpoint
// themselves; a gateway has no such caller, so it is told.
func ByEDS(svc *mesh.Service, proxy mesh.ProxyType) bool {
	return svc.Resolution == mesh.Static || svc.Resolution == mesh.Passthrough && proxy == mesh.RouterProxy
}

// InputFor gives the input of a cluster's assignment. What of the View makes no difference to it is left out, so that as
// many proxies as can be share it.
func InputFor(v *view.View, svc *mesh.Service, cluster mesh.ClusterName) Input {
	in := Input{
		Cluster: cluster, Service: svc, Endpoints: v.Endpoints(svc), Rule: v.DestinationRule(svc.Host), Settings: v.Settings,
	}
	if in.nearness() {
		in.Caller = Caller{Locality: v.Key.Locality, Network: v.Key.Network, Cluster: v.Key.Cluster}
	}
	return in
}

// nearness says whether it matters where the caller is.
func (in Input) nearness() bool {
	m := in.Settings.Mesh
	if in.Rule == nil && in.Service.TrafficDistribution == "" && m.GetDefaultTrafficPolicy() == nil && len(m.GetLocalityLbSetting().GetDistribute()) == 0 {
		return false // the common case, without working out the policy
	}
	return policy.LocalityOf(m, policy.Of(m, in.rule(), in.Cluster.Subset, in.Cluster.Port), in.Service).Shapes()
}

func encodedAssignment(in Input) *resource.Resource {
	var from []config.Key
	if in.Service.From != (config.Key{}) {
		from = append(from, in.Service.From)
	}
	if in.Rule != nil {
		from = append(from, in.Rule.From...)
	}
	return encoded(Assignment(in), from...)
}

func encoded(a *endpointv3.ClusterLoadAssignment, from ...config.Key) *resource.Resource {
	r, err := resource.Encode(a.GetClusterName(), api.EndpointType, a, from...)
	if err != nil {
		panic(fmt.Sprintf("assignment %q: %v", a.GetClusterName(), err)) // messages of our own making always encode
	}
	return r
}
