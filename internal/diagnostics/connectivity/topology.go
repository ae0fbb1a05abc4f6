package connectivity

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Topology is the services of a mesh and the calls between them that objects name. Calls that are
// possible only because nothing limits the caller and nothing restricts the service are left out:
// those are all pairs of a Node that is not Limited and one that is not Restricted.
type Topology struct {
	// Nodes are sorted by namespace, service and workload.
	Nodes []Node
	// Calls are sorted by From and To.
	Calls []Call
	// Callers has the End of each workload as a caller: the first of the services that it serves.
	Callers map[WorkloadName]End
}

// WorkloadName names the workloads of one owner.
type WorkloadName struct{ Namespace, Name string }

// End is an end of a Call: a service, which as a caller is the workloads that serve it, or a
// workload that serves none. If both are empty, it is all of these in the namespace or, as To, all
// services of the namespace that are not Restricted.
type End struct {
	Namespace string
	Service   mesh.Hostname
	Workload  string
}

// Node is an End of the mesh with its properties.
type Node struct {
	End
	// Gateway is set if a workload of the node is a gateway.
	Gateway bool
	// Instances is the number of its workloads, NoProxy that of workloads without a proxy.
	Instances, NoProxy int
	// Limited is set if a Sidecar or the routes of a gateway limit what each workload may call.
	Limited bool
	// Restricted is set if AuthorizationPolicies name the callers of each workload.
	Restricted bool
}

// Call is calls that objects name: the Sidecar that has To in its scope, and the
// AuthorizationPolicies with the identity of From. It is left out if To is not in the scope of From
// or the policies deny its identity all requests.
type Call struct {
	From, To End
	// Routed is set for calls of From that a VirtualService sends to To.
	Routed bool
	// By are the objects, at most maxBy.
	By []config.Key
}

// maxBy limits the objects of a Call.
const maxBy = 8

// topologyBuilder computes a Topology. Nodes are named by their index.
type topologyBuilder struct {
	*Mesh
	nodes    []Node
	services map[mesh.ServiceKey]int
	nodesOf  map[*Workload][]int
	access   map[string]access
	limits   map[*class]limit
	calls    map[[2]int][]config.Key
}

// limit is what the workloads of a class may call. by and targets are set only if limited is.
type limit struct {
	limited bool
	by      []config.Key
	targets []*mesh.Service
}

// Topology returns the services and other workloads, the calls between them that objects name, and
// the end of each workload as a caller. Nodes are sorted by their ends, calls by caller and callee.
func (m *Mesh) Topology() *Topology {
	b := &topologyBuilder{
		Mesh: m, services: map[mesh.ServiceKey]int{}, nodesOf: map[*Workload][]int{}, access: map[string]access{},
		limits: map[*class]limit{}, calls: map[[2]int][]config.Key{},
	}
	b.addNodes()
	for _, w := range m.Workloads {
		if l := b.limits[w.class]; l.limited {
			for _, svc := range l.targets {
				b.addCall(w, svc.ServiceKey, l.by)
			}
		}
	}
	b.addNamedCallers()
	x := &Topology{Nodes: slices.Clone(b.nodes), Calls: append(b.aggregate(), b.routes()...)}
	x.Callers = b.callers()
	slices.SortFunc(x.Nodes, func(a, b Node) int { return a.compare(b.End) })
	slices.SortStableFunc(x.Calls, func(a, b Call) int { return cmp.Or(a.From.compare(b.From), a.To.compare(b.To)) })
	return x
}

// compare orders ends by namespace, service and workload.
func (e End) compare(o End) int {
	return cmp.Or(cmp.Compare(e.Namespace, o.Namespace), cmp.Compare(e.Service, o.Service),
		cmp.Compare(e.Workload, o.Workload))
}

// addNodes appends a node for each service, and for each workload that serves none, and fills
// b.services, b.nodesOf and b.limits. A node is limited or restricted if all its workloads are, and
// a gateway if any is. Workloads that serve none and have one namespace and name share a node.
func (b *topologyBuilder) addNodes() {
	for _, svc := range b.Snapshot.Services() {
		b.services[svc.ServiceKey] = len(b.nodes)
		b.nodes = append(b.nodes, Node{End: End{Namespace: svc.Namespace, Service: svc.Host}})
	}
	alone := map[End]int{}
	for _, w := range b.Workloads {
		for _, s := range w.Served {
			if i, known := b.services[s.Service]; known && !slices.Contains(b.nodesOf[w], i) {
				b.nodesOf[w] = append(b.nodesOf[w], i)
			}
		}
		if len(b.nodesOf[w]) == 0 {
			end := End{Namespace: w.Namespace, Workload: w.Name}
			if _, known := alone[end]; !known {
				alone[end] = len(b.nodes)
				b.nodes = append(b.nodes, Node{End: end})
			}
			b.nodesOf[w] = []int{alone[end]}
		}
		b.limits[w.class] = b.limitOf(w.class)
		for _, i := range b.nodesOf[w] {
			n := &b.nodes[i]
			n.Limited = b.limits[w.class].limited && (n.Limited || n.Instances == 0)
			n.Restricted = b.accessOf(w).restricted && (n.Restricted || n.Instances == 0)
			n.Gateway = n.Gateway || w.Role == Gateway
			n.Instances += w.Instances
			if w.Role == NoProxy {
				n.NoProxy += w.Instances
			}
		}
	}
}

// callers returns the End of each workload as a caller. A workload of several services has the one
// that sorts first.
func (b *topologyBuilder) callers() map[WorkloadName]End {
	ends := map[WorkloadName]End{}
	for _, w := range b.Workloads {
		name := WorkloadName{w.Namespace, w.Name}
		for _, i := range b.nodesOf[w] {
			if known, ok := ends[name]; !ok || b.nodes[i].compare(known) < 0 {
				ends[name] = b.nodes[i].End
			}
		}
	}
	return ends
}

// limitOf returns which services the workloads of a class may call. Workloads without a proxy (nil)
// are not limited. A Sidecar that hides no service limits nothing; a gateway is always limited. The
// result is read from b.limits if it is there, but not stored.
func (b *topologyBuilder) limitOf(c *class) limit {
	if c == nil {
		return limit{}
	}
	if l, known := b.limits[c]; known {
		return l
	}
	var l limit
	switch {
	case c.role == Gateway:
		l.limited = true
	case c.sidecar != (config.Key{}):
		k := c.view.Key
		k.Sidecar = config.Key{}
		l.limited, l.by = len(c.view.Services) < len(view.Build(b.Snapshot, k).Services), []config.Key{c.sidecar}
	}
	if l.limited {
		for _, svc := range c.view.Services {
			if c.reaches(svc) {
				l.targets = append(l.targets, svc)
			}
		}
	}
	return l
}

// accessOf returns the access of the workload w as a server. It is not restricted without a
// sidecar. Workloads with the same policies share the result.
func (b *topologyBuilder) accessOf(w *Workload) access {
	if w.Role != Sidecar {
		return access{}
	}
	a, known := b.access[w.key.Policies.Authorization]
	if !known {
		a = newAccess(b.Snapshot.Policies(api.AuthorizationPolicy, w.key.Policies.Authorization))
		b.access[w.key.Policies.Authorization] = a
	}
	return a
}

// addCall adds calls of w to a service, unless all of its servers deny them or w is one of them. by
// are the objects that name the calls; policies that admit w are added to them, in all at most
// maxBy. It does nothing for an unknown service.
func (b *topologyBuilder) addCall(w *Workload, to mesh.ServiceKey, by []config.Key) {
	target, known := b.services[to]
	if !known {
		return
	}
	id := newIdentity(w, b.Snapshot.Settings.TrustDomain)
	admitted := len(b.servers[to]) == 0
	for _, server := range b.servers[to] {
		policies, ok := b.accessOf(server).admits(id)
		admitted = admitted || ok
		by = slices.Concat(by, policies)
	}
	if !admitted {
		return
	}
	for _, from := range b.nodesOf[w] {
		if from != target {
			k := [2]int{from, target}
			b.calls[k] = appendNew(b.calls[k], by)
		}
	}
}

// appendNew appends the keys that list does not have, up to maxBy elements in all. It may reuse the
// memory of list.
func appendNew(list, keys []config.Key) []config.Key {
	for _, k := range keys {
		if len(list) < maxBy && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

// addNamedCallers adds the calls of workloads that are not limited to restricted services whose
// policies may name their namespace. Workloads that cannot reach the service are left out.
func (b *topologyBuilder) addNamedCallers() {
	byNamespace := map[string][]*Workload{}
	for _, w := range b.Workloads {
		if !b.limits[w.class].limited {
			namespace := newIdentity(w, b.Snapshot.Settings.TrustDomain).namespace
			byNamespace[namespace] = append(byNamespace[namespace], w)
		}
	}
	for _, svc := range b.Snapshot.Services() {
		if !b.nodes[b.services[svc.ServiceKey]].Restricted {
			continue
		}
		for namespace, workloads := range byNamespace {
			named := slices.ContainsFunc(b.servers[svc.ServiceKey],
				func(server *Workload) bool { return b.accessOf(server).mayName(namespace) })
			for _, w := range workloads {
				if named && (w.class == nil || w.class.reaches(svc)) {
					b.addCall(w, svc.ServiceKey, nil)
				}
			}
		}
	}
}

// routes returns the calls that VirtualServices for sidecars send to another service than the
// called one, in the order of services. Routes that only callers of another namespace than the
// VirtualService's can match are left out. Of services with the same host in several namespaces,
// the one of the VirtualService's namespace is considered, or all if there is none.
func (b *topologyBuilder) routes() []Call {
	byHost := map[mesh.Hostname][]int{}
	for _, svc := range b.Snapshot.Services() {
		byHost[svc.Host] = append(byHost[svc.Host], b.services[svc.ServiceKey])
	}
	found := map[[2]int][]config.Key{}
	for _, vs := range b.Snapshot.VirtualServices() {
		if !slices.Contains(vs.Gateways, snapshot.MeshGateway) {
			continue
		}
		for _, host := range vs.Hosts {
			callers := b.nearest(byHost[host], vs.Config.Namespace)
			if len(callers) == 0 {
				continue
			}
			for _, d := range view.Destinations(vs.Spec, vs.Config.Namespace) {
				to := vs.ResolveHost(d.GetHost())
				if to == host {
					continue
				}
				for _, k := range pairs(callers, b.nearest(byHost[to], vs.Config.Namespace)) {
					found[k] = appendNew(found[k], vs.From)
				}
			}
		}
	}
	var list []Call
	for _, k := range slices.SortedFunc(maps.Keys(found), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		list = append(list, Call{From: b.nodes[k[0]].End, To: b.nodes[k[1]].End, Routed: true, By: found[k]})
	}
	return list
}

// nearest returns the nodes of a namespace among nodes, or nodes if none of them is there.
func (b *topologyBuilder) nearest(nodes []int, namespace string) []int {
	for i, n := range nodes {
		if b.nodes[n].Namespace == namespace {
			return nodes[i : i+1]
		}
	}
	return nodes
}

// pairs returns each node of from with each of to.
func pairs(from, to []int) [][2]int {
	var list [][2]int
	for _, f := range from {
		for _, t := range to {
			list = append(list, [2]int{f, t})
		}
	}
	return list
}
