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

// Generator makes the resources of gRPC applications, each distinct one once. It is for use by many goroutines.
type Generator struct {
	envoy          Envoy
	authorizations *authorization.Table

	clusters, endpoints *memo.Table[*resource.Resource, *reduced]
	routes              *memo.Table[routeInput, *reduced]
	direct              *memo.Table[directInput, *resource.Resource]
	clients             *memo.Table[clientInput, *resource.Resource]
	servers             *memo.Table[serverInput, *resource.Resource]
}

// Envoy is the generators whose resources are reduced.
type Envoy struct {
	Clusters  *cluster.Generator
	Endpoints *endpoint.Generator
	Routes    *route.Generator
}

// reduced is a resource of Envoy's, and what stays of it; nil if gRPC has no use for it.
type reduced struct{ of, made *resource.Resource }

// keep ties what was made of a resource to it: as long as one is in use the other is found again.
func keep(of, made *resource.Resource) *reduced {
	r := &reduced{of: of, made: made}
	if made != nil {
		made.From, made.Parts = of.From, r
	}
	return r
}

// NewGenerator makes a Generator that remembers nothing yet.
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

// Clusters gives the clusters of a View whose endpoints come by EDS. gRPC asks for those by name that its routes lead to.
func (g *Generator) Clusters(v *view.View) []*resource.Resource {
	return g.reduceClusters(g.envoy.Clusters.Outbound(v))
}

// ClustersSince gives what Clusters gives that differs from an older View.
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
	for _, r := range diff.Updated { // those that are now of a kind that gRPC does not have
		if !there[r.Name] {
			diff.Removed = append(diff.Removed, r.Name)
		}
	}
	diff.Updated = updated
	return diff, true
}

func (g *Generator) reduceClusters(list []*resource.Resource) []*resource.Resource {
	made := make([]*resource.Resource, 0, len(list))
	for _, r := range list {
		if c := g.clusters.Get(r); c.made != nil {
			made = append(made, c.made)
		}
	}
	return made
}

// Endpoints gives the assignment of a cluster.
func (g *Generator) Endpoints(v *view.View, name string) *resource.Resource {
	return g.endpoints.Get(g.envoy.Endpoints.Named(v, name)).made
}

// Route gives the RouteConfiguration of a service's port, nil if there is no such service.
func (g *Generator) Route(v *view.View, name string) *resource.Resource {
	n, ok := routeOf(name)
	if !ok {
		return nil
	}
	if of := g.envoy.Routes.Named(v, envoysName(n)); of != nil {
		return g.routes.Get(routeInput{of: of, name: n, idle: idle(v, of.From, n.Port)}).made
	}
	// gRPC can call ports, too, of which nobody says that requests are made there.
	svc := v.Service(n.Host)
	if svc == nil || svc.Resolution == mesh.Alias {
		return nil
	}
	if p, ok := svc.Port(n.Port); !ok || !p.Protocol.Captured() || p.Protocol.IsHTTP() || p.Protocol == mesh.Auto {
		return nil
	}
	return g.direct.Get(directInput{name: n, from: svc.From})
}

// RoutesAffected gives those of the names whose RouteConfigurations a change may alter.
func (g *Generator) RoutesAffected(old, v *view.View, d snapshot.Delta, names []string) []string {
	var envoys, affected []string
	by := map[string]string{}
	for _, name := range names {
		n, ok := routeOf(name)
		if !ok {
			continue
		}
		// A service that comes or goes may be one of those that have no route of Envoy's, or have a share of 0, as subsets may.
		if len(d.Services) > 0 || len(d.Rules) > 0 || d.All {
			affected = append(affected, name)
			continue
		}
		e := envoysName(n)
		by[e] = name
		envoys = append(envoys, e)
	}
	for _, e := range g.envoy.Routes.Affected(old, v, d, sorted(envoys)) {
		affected = append(affected, by[e])
	}
	return sorted(affected)
}

// routeOf reads the name of a route, which is that of the cluster of a whole service.
func routeOf(name string) (mesh.ClusterName, bool) {
	if !strings.HasPrefix(name, "outbound|") {
		return mesh.ClusterName{}, false
	}
	n, err := mesh.ParseClusterName(name)
	return n, err == nil && n.Direction == mesh.Outbound && n.Subset == "" && n.String() == name
}

// Computed is how many resources were really made since the start, by what they are, for tests and metrics.
func (g *Generator) Computed() uint64 {
	return g.clusters.Computed() + g.endpoints.Computed() + g.routes.Computed() + g.direct.Computed() + g.clients.Computed() + g.servers.Computed()
}
