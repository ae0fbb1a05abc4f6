package endpoint

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// localKey is everything that the assignment of mesh.LocalCluster depends on.
type localKey struct {
	service   *mesh.Service
	endpoints *snapshot.EndpointSet
	self      view.SelfDiscovery
	region    string
}

// local is the assignment of mesh.LocalCluster.
type local struct{ resource *resource.Resource }

// Local returns the assignment of mesh.LocalCluster, or nil for any other name. The assignment is
// empty if no service selects the proxy: without an answer Envoy would wait for one before it
// starts.
func (g *Generator) Local(v *view.View, name string) *resource.Resource {
	if name != mesh.LocalCluster {
		return nil
	}
	k := localKey{self: v.Key.SelfDiscovery, region: v.Key.Locality.Region}
	if k.service = v.Snapshot.Service(k.self.Service); k.service != nil {
		k.endpoints = v.Endpoints(k.service)
	}
	return g.locals.Get(k).resource
}

// buildLocal generates the assignment of mesh.LocalCluster: healthy endpoints of the port and
// workload k.self, in k.region and with a static address. Zone-aware routing chooses among the
// zones of a region by the number of healthy hosts in each. Envoy opens no connection to them, so
// their networks and DestinationRules do not matter. Without a service it is empty, and not counted
// in g.computed.
func (g *Generator) buildLocal(k localKey) *local {
	b := appendText(nil, assignmentClusterName, mesh.LocalCluster)
	if k.service == nil || k.endpoints == nil {
		return newLocal(resource.FromBytes(mesh.LocalCluster, api.EndpointType, b))
	}
	port, _ := k.service.Port(k.self.Port)
	name := Input{Service: k.service, Endpoints: k.endpoints}.portName(port)
	var list []*mesh.Endpoint
	for _, e := range k.endpoints.Endpoints {
		if e.ServicePort == name && e.Health == mesh.Healthy && e.Locality.Region == k.region &&
			isStaticAddress(e.Address) && k.self.Includes(e) {
			list = append(list, e)
		}
	}
	for _, group := range groupByLocality(list) {
		b = group.appendTo(b, false)
	}
	g.computed.Add(1)
	return newLocal(resource.FromBytes(mesh.LocalCluster, api.EndpointType, b, k.service.AppendObjects(nil)...))
}

// newLocal returns the cached value of r, which stays in the cache as long as a proxy has r.
func newLocal(r *resource.Resource) *local {
	l := &local{r}
	r.Parts = l
	return l
}

// LocalTouched reports whether a change may alter the assignment of mesh.LocalCluster for the
// View's proxies.
func LocalTouched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.IsSelfDiscoveryAffectedBy(d)
}

// emptyAssignment returns an assignment without endpoints, marked as a Placeholder, for a cluster
// that does not exist.
func emptyAssignment(name string) *resource.Resource {
	r := resource.FromBytes(name, api.EndpointType,
		protowire.AppendString(protowire.AppendTag(nil, assignmentClusterName, protowire.BytesType), name))
	r.Placeholder = true
	return r
}
