package endpoint

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Generator generates the load assignments of Views. It generates all assignments of a service
// together, and caches each distinct output. It is safe for concurrent use.
type Generator struct {
	families    *memo.Table[familyKey, *family]
	assignments *memo.Table[assignmentsKey, *assignments]
	sniDNATs    *memo.Table[sniDNATKey, *sniDNATAssignment]
	locals      *memo.Table[localKey, *local]
	computed    atomic.Uint64
	buffers     sync.Pool // of *[]byte, for encodeAssignment
}

// assignmentsKey is everything that the assignments of a service depend on.
type assignmentsKey struct {
	Input
	proxy mesh.ProxyType
}

// assignments has one resource for each member of the family of a service. They and their family
// stay cached as long as one of them is in use.
type assignments struct {
	family    *family
	resources []*resource.Resource
}

// NewGenerator returns a Generator with empty caches.
func NewGenerator() *Generator {
	g := &Generator{families: memo.New(newFamily)}
	g.assignments = memo.New(g.buildAssignments)
	g.sniDNATs = memo.New(g.buildSNIDNAT)
	g.locals = memo.New(g.buildLocal)
	return g
}

// NamedRemote returns the result of Named, or nil for mesh.LocalCluster, which Local returns.
func (g *Generator) NamedRemote(v *view.View, name string) *resource.Resource {
	if name == mesh.LocalCluster {
		return nil
	}
	return g.Named(v, name)
}

// Named returns the assignment of a cluster for the View's proxies. For gateways, name may also be
// the server name of a cluster. It never returns nil: for an unknown cluster the assignment is
// empty and a Placeholder, because a cluster without an answer stays warming.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if cluster, err := mesh.ParseClusterName(name); err == nil {
		if svc := v.Service(cluster.Host); svc != nil {
			all := g.assignmentsOf(v, svc)
			if at, found := all.family.indexOf(name); found {
				return all.resources[at]
			}
		}
	}
	if r := g.namedSNIDNAT(v, name); r != nil {
		return r
	}
	return emptyAssignment(name)
}

// Every returns the assignments of all clusters of the View's services, sorted by name, each as
// Named returns it. It leaves out the clusters of gateways that are named by a server name.
func (g *Generator) Every(v *view.View) []*resource.Resource {
	// The name of a cluster begins with its port and subset, and services are sorted by hostname.
	// So the assignments of one port and subset are already sorted.
	lanes := map[string][]*resource.Resource{}
	for _, svc := range v.Services {
		for _, r := range g.assignmentsOf(v, svc).resources {
			lane := r.Name[:len(r.Name)-len(svc.Host)]
			lanes[lane] = append(lanes[lane], r)
		}
	}
	var list []*resource.Resource
	for _, lane := range sortedKeys(lanes) {
		list = append(list, lanes[lane]...)
	}
	return list
}

// sortedKeys returns the keys of m in ascending order. It is not nil, even if m is.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// assignmentsOf returns the assignments of all EDS clusters of a service, for the View's proxies.
func (g *Generator) assignmentsOf(v *view.View, svc *mesh.Service) *assignments {
	k, f := g.keyFor(v, svc)
	all := g.assignments.Get(k)
	runtime.KeepAlive(f) // so that it stays cached until here
	return all
}

// keyFor returns the inputs of the assignments of a service, and its family. The caller must keep
// the family alive until it has used the inputs.
func (g *Generator) keyFor(v *view.View, svc *mesh.Service) (assignmentsKey, *family) {
	k := assignmentsKey{Input: inputFor(v, svc), proxy: v.Key.Type}
	f := g.family(k)
	k.Caller = k.callerOf(v, f.localityAware, f.clusterLocal)
	return k, f
}

// family returns the EDS clusters of the service of k, cached or new.
func (g *Generator) family(k assignmentsKey) *family {
	return g.families.Get(familyKey{service: k.Service, rule: k.Rule, settings: k.Settings, proxy: k.proxy})
}

// buildAssignments generates the assignments of all clusters in the family of a service, in the
// order of its members. It adds their number to g.computed.
func (g *Generator) buildAssignments(k assignmentsKey) *assignments {
	a := &assignments{family: g.family(k)}
	from := k.Service.AppendObjects(nil)
	if k.Rule != nil {
		from = append(from, k.Rule.From...)
	}
	a.resources = make([]*resource.Resource, len(a.family.members))
	for i, m := range a.family.members {
		a.resources[i] = g.encodeAssignment(k.Input, m, from)
		a.resources[i].Parts = a
	}
	g.computed.Add(uint64(len(a.resources)))
	return a
}

// encodeAssignment returns the assignment of the cluster m as a resource. from are the objects that
// it was generated from.
func (g *Generator) encodeAssignment(in Input, m member, from []config.Key) *resource.Resource {
	b, ok := g.buffers.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	defer g.buffers.Put(b)
	*b = in.appendAssignment((*b)[:0], m)
	return resource.CopyBytes(m.name, api.EndpointType, *b, from...)
}

// familyOf returns the EDS clusters of a service, for the View's proxies.
func (g *Generator) familyOf(v *view.View, svc *mesh.Service) *family {
	return g.family(assignmentsKey{Input: inputFor(v, svc), proxy: v.Key.Type})
}

// Affected returns the elements of names, which must be sorted, whose assignments a change from old
// to v may alter. Their order is undefined, and names may repeat. If the difference is unknown, it
// returns all names with a cluster in v. It omits names whose clusters no longer exist: until Envoy
// removes such a cluster it uses the endpoints that it has, and no request is lost.
func (g *Generator) Affected(old, v *view.View, d snapshot.Delta, names []string) []string {
	differs, ok := v.DiffSince(old, d)
	if !ok {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !g.hasCluster(v, name) })
	}
	hosts := differs.Hosts()
	for k := range d.Endpoints {
		if svc := v.Service(k.Host); svc != nil && svc.ServiceKey == k {
			hosts = append(hosts[:len(hosts):len(hosts)], k.Host)
		}
	}
	var affected []string
	for _, host := range hosts {
		svc := v.Service(host)
		if svc == nil {
			continue
		}
		for _, m := range g.familyOf(v, svc).members {
			for _, name := range clusterNames(v, m) {
				if _, asked := slices.BinarySearch(names, name); asked {
					affected = append(affected, name)
				}
			}
		}
	}
	return affected
}

// hasCluster reports whether the View has an EDS cluster with the name. For a gateway, name may
// also be the server name of a cluster (DefaultSNI).
func (g *Generator) hasCluster(v *view.View, name string) bool {
	cluster, err := mesh.ParseClusterName(name)
	if err != nil {
		if cluster, err = mesh.ParseSNI(name); err != nil || v.Key.Type != mesh.RouterProxy {
			return false
		}
	}
	svc := v.Service(cluster.Host)
	if svc == nil {
		return false
	}
	_, found := g.familyOf(v, svc).indexOf(cluster.String())
	return found
}

// Computed returns how many assignments have been generated since the start.
func (g *Generator) Computed() uint64 { return g.computed.Load() }

// InputFor returns the input of the assignment of one cluster of svc. Properties of the View that
// do not affect it are zero, so that as many proxies as possible share the output.
func InputFor(v *view.View, svc *mesh.Service, cluster mesh.ClusterName) Input {
	in := inputFor(v, svc)
	in.Cluster = cluster
	near := false
	if port, ok := svc.ClusterPort(cluster); ok {
		near = newMember(svc, in.destinationRule(), in.Settings, cluster, port).locality.Shapes()
	}
	in.Caller = in.callerOf(v, near, isClusterLocal(svc, in.Settings))
	return in
}

// inputFor returns the input for all clusters of a service, without Cluster and Caller.
func inputFor(v *view.View, svc *mesh.Service) Input {
	return Input{Service: svc, Endpoints: v.Endpoints(svc), Rule: v.DestinationRule(svc.Host), Settings: v.Settings}
}

// callerOf returns where the View's proxies run, without the properties that do not affect the
// assignment. near is set if the assignment depends on the caller's locality, local if only
// endpoints of the caller's cluster are used. The node, cluster, networks and gateways are set only
// if the service or its endpoints depend on them.
func (in Input) callerOf(v *view.View, near, local bool) Caller {
	var c Caller
	if near {
		c = Caller{Locality: v.Key.Locality, Network: v.Key.Network, Cluster: v.Key.Cluster,
			FailoverLabels: v.Key.FailoverLabels}
	}
	if local {
		c.ClusterLocal, c.Cluster = true, v.Key.Cluster
	}
	if in.Endpoints.Confined {
		c.Cluster = v.Key.Cluster
	}
	if dependsOnNode(in.Service) {
		c.Node = v.Key.Node
	}
	if in.Endpoints.Networked {
		c.NetworkView = v.Key.NetworkView
		if c.Gateways = v.Snapshot.Networks(); c.Gateways != nil {
			c.Network, c.IPv4, c.IPv6 = v.Key.Network, v.Key.IPv4, v.Key.IPv6
		}
	}
	return c
}
