package endpoint

import (
	"fmt"
	"iter"
	"slices"

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

// Affected gives those of the names, which are sorted, whose assignments a change may alter. Names whose clusters are gone
// are not among them: until Envoy is told so it goes on with the endpoints that it has, and no request is lost in between.
func (g *Generator) Affected(old, v *view.View, d snapshot.Delta, names []string) []string {
	differs, ok := v.Since(old, d)
	if !ok {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			cluster, err := mesh.ParseClusterName(name)
			return err != nil || !current(v, cluster)
		})
	}
	hosts := differs.Hosts()
	for k := range d.Endpoints {
		if svc := v.Service(k.Host); svc != nil && svc.ServiceKey == k {
			hosts = append(hosts[:len(hosts):len(hosts)], k.Host)
		}
	}
	var affected []string
	for _, host := range hosts {
		for name := range clusters(v, host) {
			if _, asked := slices.BinarySearch(names, name); asked {
				affected = append(affected, name)
			}
		}
	}
	return affected
}

// clusters gives the names of a service's EDS clusters. It asks the same questions as the cluster room, which makes them.
func clusters(v *view.View, host mesh.Hostname) iter.Seq[string] {
	return func(yield func(string) bool) {
		svc := v.Service(host)
		if svc == nil || !ByEDS(svc, v.Key.Type) {
			return
		}
		subsets := []string{""}
		if rule := v.DestinationRule(host); rule != nil {
			for _, s := range rule.Spec.GetSubsets() {
				subsets = append(subsets, s.GetName())
			}
		}
		for _, port := range svc.Ports {
			if !port.Protocol.Captured() {
				continue
			}
			for _, subset := range subsets {
				if !yield(mesh.ClusterName{Direction: mesh.Outbound, Port: port.Number, Subset: subset, Host: host}.String()) {
					return
				}
			}
		}
	}
}

// Computed is how many assignments were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.assignments.Computed() }

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
