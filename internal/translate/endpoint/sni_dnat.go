package endpoint

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// sniDNATKey is everything that the assignment of a cluster depends on to which a gateway forwards
// TLS by server name (AUTO_PASSTHROUGH).
type sniDNATKey struct {
	assignmentsKey
	cluster mesh.ClusterName
}

// sniDNATAssignment is such an assignment.
type sniDNATAssignment struct {
	resource *resource.Resource
	family   *family
}

// namedSNIDNAT returns the assignment of the cluster to which gateways forward TLS with the server
// name name. It returns nil if the View is not of gateways, or has no such service, port or subset.
// A gateway cannot authenticate the callers, so the assignment contains only endpoints that require
// it themselves: those with mutual TLS.
func (g *Generator) namedSNIDNAT(v *view.View, name string) *resource.Resource {
	cluster, err := mesh.ParseSNI(name)
	if err != nil || v.Key.Type != mesh.RouterProxy {
		return nil
	}
	svc := v.Service(cluster.Host)
	if svc == nil {
		return nil
	}
	k, f := g.keyFor(v, svc)
	if _, found := f.indexOf(cluster.String()); !found {
		return nil
	}
	return g.sniDNATs.Get(sniDNATKey{k, cluster}).resource
}

// buildSNIDNAT generates the assignment of a cluster for gateways that forward by server name: only
// endpoints with mutual TLS, under the server name. The cluster must exist. It adds 1 to
// g.computed.
func (g *Generator) buildSNIDNAT(k sniDNATKey) *sniDNATAssignment {
	f := g.family(k.assignmentsKey)
	at, _ := f.indexOf(k.cluster.String())
	m := f.members[at]
	m.name = k.cluster.DefaultSNI()
	k.Endpoints = MutualTLS(k.Endpoints)
	var from []config.Key
	if k.Service.From != (config.Key{}) {
		from = append(from, k.Service.From)
	}
	if k.Rule != nil {
		from = append(from, k.Rule.From...)
	}
	h := &sniDNATAssignment{
		resource: g.encodeAssignment(k.Input, m, from),
		family:   f,
	}
	h.resource.Parts = h
	g.computed.Add(1)
	return h
}

// MutualTLS returns the endpoints of a set that use mutual TLS between proxies, and nil for nil.
func MutualTLS(set *snapshot.EndpointSet) *snapshot.EndpointSet {
	if set == nil {
		return nil
	}
	mutual := &snapshot.EndpointSet{Networked: set.Networked, Confined: set.Confined}
	for _, e := range set.Endpoints {
		if e.TLS {
			mutual.Endpoints = append(mutual.Endpoints, e)
		}
	}
	return mutual
}

// clusterNames returns the names of the clusters with the endpoints of m: its own and, for
// gateways, its server name (DefaultSNI). If the name of m cannot be parsed, it returns that name
// only.
func clusterNames(v *view.View, m member) []string {
	if v.Key.Type != mesh.RouterProxy {
		return []string{m.name}
	}
	n, err := mesh.ParseClusterName(m.name)
	if err != nil {
		return []string{m.name}
	}
	return []string{m.name, n.DefaultSNI()}
}
