package endpoint

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// handedKey is all that the assignment of a cluster depends on to which a gateway hands TLS on as it comes (AUTO_PASSTHROUGH).
type handedKey struct {
	assignmentsKey
	cluster mesh.ClusterName
}

// handed is such an assignment.
type handed struct {
	resource *resource.Resource
	family   *family
}

// handedOn gives the assignment of a cluster to which gateways hand TLS on, nil if the name is of none. A gateway cannot tell who
// calls, so only endpoints are in it that see to that themselves: those that take mutual TLS.
func (g *Generator) handedOn(v *view.View, name string) *resource.Resource {
	cluster, err := mesh.ParseSNI(name)
	if err != nil || v.Key.Type != mesh.RouterProxy {
		return nil
	}
	svc := v.Service(cluster.Host)
	if svc == nil {
		return nil
	}
	k, f := g.key(v, svc)
	if _, found := f.find(cluster.String()); !found {
		return nil
	}
	return g.handed.Get(handedKey{k, cluster}).resource
}

func (g *Generator) makeHanded(k handedKey) *handed {
	f := g.family(k.assignmentsKey)
	at, _ := f.find(k.cluster.String())
	m := f.members[at]
	m.name = k.cluster.DefaultSNI()
	mutual := &snapshot.EndpointSet{Networked: k.Endpoints.Networked, Confined: k.Endpoints.Confined}
	for _, e := range k.Endpoints.Endpoints {
		if e.TLS {
			mutual.Endpoints = append(mutual.Endpoints, e)
		}
	}
	k.Endpoints = mutual
	var from []config.Key
	if k.Service.From != (config.Key{}) {
		from = append(from, k.Service.From)
	}
	if k.Rule != nil {
		from = append(from, k.Rule.From...)
	}
	h := &handed{resource: resource.FromBytes(m.name, api.EndpointType, k.assignment(m), from...), family: f}
	h.resource.Parts = h
	g.computed.Add(1)
	return h
}

// clusterNames gives the names of the clusters that a member's endpoints are those of.
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
