package grpc

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/translate/route"
)

// Generator generates the resources of gRPC applications, and caches each distinct one. It is safe
// for concurrent use.
type Generator struct {
	envoy          Envoy
	authorizations *authorization.Table

	clusters, endpoints *memo.Table[*resource.Resource, *reduced]
	routes              *memo.Table[routeInput, *reduced]
	direct              *memo.Table[directInput, *resource.Resource]
	clients             *memo.Table[clientInput, *resource.Resource]
	servers             *memo.Table[serverInput, *resource.Resource]
}

// Envoy has the generators whose resources are reduced.
type Envoy struct {
	Clusters  *cluster.Generator
	Endpoints *endpoint.Generator
	Routes    *route.Generator
}

// reduced is a resource of Envoy, and what remains of it; made is nil if nothing does.
type reduced struct{ of, made *resource.Resource }

// keepTogether returns both resources as a pair; made may be nil. made references the pair and gets
// the From of of, so as long as made is in use, both stay cached.
func keepTogether(of, made *resource.Resource) *reduced {
	r := &reduced{of: of, made: made}
	if made != nil {
		made.From, made.Parts = of.From, r
	}
	return r
}

// NewGenerator returns a Generator with empty caches.
func NewGenerator(e Envoy) *Generator {
	return &Generator{
		envoy: e, authorizations: authorization.NewTable(),
		clusters:  memo.New(reduceCluster),
		endpoints: memo.New(reduceAssignment),
		routes:    memo.New(reduceRoute),
		direct:    memo.New(directRoute),
		clients:   memo.New(clientListener),
		servers:   memo.New(serverListener),
	}
}

// Clusters returns the clusters of a View that use EDS, reduced to the fields that gRPC reads. gRPC
// subscribes by name to the clusters that its routes reference.
func (g *Generator) Clusters(v *view.View) []*resource.Resource {
	return g.reduceClusters(g.envoy.Clusters.Outbound(v))
}

// ClustersSince returns the difference between the results of Clusters for old and v; d has all
// changes in between. The bool is false if the difference is unknown. An updated cluster that gRPC
// does not support is in Removed.
func (g *Generator) ClustersSince(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
	diff, ok := g.envoy.Clusters.OutboundSince(old, v, d)
	if !ok {
		return resource.Diff{}, false
	}
	updated := g.reduceClusters(diff.Updated)
	there := make(map[string]bool, len(updated))
	for _, r := range updated {
		there[r.Name] = true
	}
	for _, r := range diff.Updated { // clusters whose type gRPC no longer supports
		if !there[r.Name] {
			diff.Removed = append(diff.Removed, r.Name)
		}
	}
	diff.Updated = updated
	return diff, true
}

// reduceClusters returns the reduced clusters (reduceCluster) of list. Clusters that gRPC does not
// support are left out.
func (g *Generator) reduceClusters(list []*resource.Resource) []*resource.Resource {
	made := make([]*resource.Resource, 0, len(list))
	for _, r := range list {
		if c := g.clusters.Get(r); c.made != nil {
			made = append(made, c.made)
		}
	}
	return made
}

// Endpoints returns the assignment of a cluster as gRPC accepts it. It is empty, not nil, for an
// unknown cluster.
func (g *Generator) Endpoints(v *view.View, name string) *resource.Resource {
	return g.endpoints.Get(g.envoy.Endpoints.Named(v, name)).made
}

// Route returns the RouteConfiguration for the outbound cluster name. It returns nil if name is
// another kind of name, or there is no such service or captured port. It also returns nil for an
// alias. A port that is not HTTP has a single route to its cluster.
func (g *Generator) Route(v *view.View, name string) *resource.Resource {
	n, ok := parseRouteName(name)
	if !ok {
		return nil
	}
	if of := g.envoy.Routes.Named(v, envoyRouteName(n)); of != nil {
		return g.routes.Get(routeInput{of: of, name: n, idle: idleClusters(v, of.From, n.Port)}).made
	}
	// gRPC may also call ports that are not declared as HTTP.
	svc := v.Service(n.Host)
	if svc == nil || svc.Resolution == mesh.Alias {
		return nil
	}
	if p, ok := svc.Port(n.Port); !ok || !p.Protocol.Captured() || p.Protocol.IsHTTP() || p.Protocol == mesh.Auto {
		return nil
	}
	return g.direct.Get(directInput{name: n, from: svc.From})
}

// RoutesAffected returns the elements of names whose RouteConfigurations a change may alter,
// sorted, without duplicates. Names that are not outbound clusters of a whole service are left out.
// A change of services, DestinationRules or everything (d.All) affects all others; after other
// changes, the routes of Envoys decide.
func (g *Generator) RoutesAffected(old, v *view.View, d snapshot.Delta, names []string) []string {
	var envoys, affected []string
	by := map[string]string{}
	for _, name := range names {
		n, ok := parseRouteName(name)
		if !ok {
			continue
		}
		// A service that was added or removed may have no route for Envoy, or be a destination of
		// weight 0, as subsets may.
		if len(d.Services) > 0 || len(d.Rules) > 0 || d.All {
			affected = append(affected, name)
			continue
		}
		e := envoyRouteName(n)
		by[e] = name
		envoys = append(envoys, e)
	}
	for _, e := range g.envoy.Routes.Affected(old, v, d, sortUnique(envoys)) {
		affected = append(affected, by[e])
	}
	return sortUnique(affected)
}

// parseRouteName parses the name of a route, which is the name of the outbound cluster of a whole
// service. The bool is false for other names, for names of subsets, and for an unusual spelling.
func parseRouteName(name string) (mesh.ClusterName, bool) {
	if !strings.HasPrefix(name, "outbound|") {
		return mesh.ClusterName{}, false
	}
	n, err := mesh.ParseClusterName(name)
	return n, err == nil && n.Direction == mesh.Outbound && n.Subset == "" && n.String() == name
}

// Computed returns how many resources have been generated since the start, without counting cached
// ones and the resources of Envoy from which they derive.
func (g *Generator) Computed() uint64 {
	return g.clusters.Computed() +
		g.endpoints.Computed() +
		g.routes.Computed() +
		g.direct.Computed() +
		g.clients.Computed() +
		g.servers.Computed()
}
