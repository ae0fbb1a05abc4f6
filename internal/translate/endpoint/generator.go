package endpoint

import (
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Generator makes the assignments of Views, those of each service together, and each distinct one once. It is for use by many
// goroutines.
type Generator struct {
	families    *memo.Table[familyKey, *family]
	assignments *memo.Table[assignmentsKey, *assignments]
	handed      *memo.Table[handedKey, *handed]
	locals      *memo.Table[localKey, *local]
	computed    atomic.Uint64
}

// assignmentsKey is all that the assignments of a service depend on.
type assignmentsKey struct {
	Input
	proxy mesh.ProxyType
}

// assignments are those of a service, one for each member of its family. They and what they were made of are remembered for
// as long as one of them is in use.
type assignments struct {
	family    *family
	resources []*resource.Resource
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	g := &Generator{families: memo.New(newFamily)}
	g.assignments = memo.New(g.make)
	g.handed = memo.New(g.makeHanded)
	g.locals = memo.New(g.makeLocal)
	return g
}

// NamedRemote returns what Named returns, but nil for mesh.LocalCluster, which Local makes.
func (g *Generator) NamedRemote(v *view.View, name string) *resource.Resource {
	if name == mesh.LocalCluster {
		return nil
	}
	return g.Named(v, name)
}

// Named returns the assignment of a cluster as the View's proxies are sent it. It never returns nil: for an unknown cluster the
// assignment is empty, since a cluster without an answer stays warming.
func (g *Generator) Named(v *view.View, name string) *resource.Resource {
	if cluster, err := mesh.ParseClusterName(name); err == nil {
		if svc := v.Service(cluster.Host); svc != nil {
			all := g.of(v, svc)
			if at, found := all.family.find(name); found {
				return all.resources[at]
			}
		}
	}
	if r := g.handedOn(v, name); r != nil {
		return r
	}
	return emptyAssignment(name)
}

// Every gives the assignments of all clusters that the View's proxies have, sorted by name: what Named gives for each.
func (g *Generator) Every(v *view.View) []*resource.Resource {
	// The name of a cluster begins with its port and subset, and services are sorted by hostname: what comes from one port and
	// subset is in order already.
	lanes := map[string][]*resource.Resource{}
	for _, svc := range v.Services {
		for _, r := range g.of(v, svc).resources {
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// of gives the assignments of a service.
func (g *Generator) of(v *view.View, svc *mesh.Service) *assignments {
	k, f := g.key(v, svc)
	all := g.assignments.Get(k)
	runtime.KeepAlive(f) // it need not be made again
	return all
}

// key gives what the assignments of a service depend on, and their family.
func (g *Generator) key(v *view.View, svc *mesh.Service) (assignmentsKey, *family) {
	k := assignmentsKey{Input: inputFor(v, svc), proxy: v.Key.Type}
	f := g.family(k)
	k.Caller = k.caller(v, f.near, f.local)
	return k, f
}

func (g *Generator) family(k assignmentsKey) *family {
	return g.families.Get(familyKey{service: k.Service, rule: k.Rule, settings: k.Settings, proxy: k.proxy})
}

func (g *Generator) make(k assignmentsKey) *assignments {
	a := &assignments{family: g.family(k)}
	from := k.Service.AppendObjects(nil)
	if k.Rule != nil {
		from = append(from, k.Rule.From...)
	}
	a.resources = make([]*resource.Resource, len(a.family.members))
	for i, m := range a.family.members {
		a.resources[i] = resource.FromBytes(m.name, api.EndpointType, k.assignment(m), from...)
		a.resources[i].Parts = a
	}
	g.computed.Add(uint64(len(a.resources)))
	return a
}

func (g *Generator) familyOf(v *view.View, svc *mesh.Service) *family {
	return g.family(assignmentsKey{Input: inputFor(v, svc), proxy: v.Key.Type})
}

// Affected gives those of the names, which are sorted, whose assignments a change may alter. Names whose clusters are gone
// are not among them: until Envoy is told so it goes on with the endpoints that it has, and no request is lost in between.
func (g *Generator) Affected(old, v *view.View, d snapshot.Delta, names []string) []string {
	differs, ok := v.Since(old, d)
	if !ok {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !g.current(v, name) })
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

// current says whether the View has an EDS cluster of that name.
func (g *Generator) current(v *view.View, name string) bool {
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
	_, found := g.familyOf(v, svc).find(cluster.String())
	return found
}

// Computed is how many assignments were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.computed.Load() }

// InputFor gives the input of a cluster's assignment. What of the View makes no difference to it is left out, so that as
// many proxies as can be share it.
func InputFor(v *view.View, svc *mesh.Service, cluster mesh.ClusterName) Input {
	in := inputFor(v, svc)
	in.Cluster = cluster
	near := false
	if port, ok := svc.Port(cluster.Port); ok {
		near = newMember(svc, in.rule(), in.Settings, cluster, port).locality.Shapes()
	}
	in.Caller = in.caller(v, near, in.Settings.ClusterLocal(svc.Host))
	return in
}

func inputFor(v *view.View, svc *mesh.Service) Input {
	return Input{Service: svc, Endpoints: v.Endpoints(svc), Rule: v.DestinationRule(svc.Host), Settings: v.Settings}
}

// caller gives what of the View's proxies makes a difference.
func (in Input) caller(v *view.View, near, local bool) Caller {
	var c Caller
	if near {
		c = Caller{Locality: v.Key.Locality, Network: v.Key.Network, Cluster: v.Key.Cluster, Near: v.Key.Near}
	}
	if local {
		c.Local, c.Cluster = true, v.Key.Cluster
	}
	if in.Endpoints.Confined {
		c.Cluster = v.Key.Cluster
	}
	if byNode(in.Service) {
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
