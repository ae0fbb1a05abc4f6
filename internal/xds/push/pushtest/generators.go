package pushtest

import (
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Generators generate for each visible service an EDS cluster "outbound|80||HOST" and its
// endpoints, a static cluster, the listener "0.0.0.0_80", and the RouteConfiguration "80" that
// names all services and VirtualServices. The route "missing" does not exist; any other route is
// empty. Calls are counted.
type Generators struct {
	// Before, if set, is called before each call of a generator, with the type URL.
	Before func(typeURL string)
	// Local is the name of a RouteConfiguration whose acceptance depends on the single proxy. ""
	// means none.
	Local string

	mu    sync.Mutex
	calls map[string]int
}

// Calls returns how often the generator of a type was called: for EDS and RDS once for each
// resource.
func (g *Generators) Calls(typeURL string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[typeURL]
}

// called counts a call of the generator of a type, and calls g.Before, if it is set.
func (g *Generators) called(typeURL string) {
	g.mu.Lock()
	if g.calls == nil {
		g.calls = map[string]int{}
	}
	g.calls[typeURL]++
	g.mu.Unlock()
	if g.Before != nil {
		g.Before(typeURL)
	}
}

// Table returns the generators of clusters, endpoints, listeners and routes.
func (g *Generators) Table() []view.Generator {
	return []view.Generator{
		{TypeURL: api.ClusterType, All: g.clusters, Update: g.clustersSince, Scope: outbound},
		{TypeURL: api.EndpointType, Named: g.endpoints, Affected: affected, Scope: outbound},
		{TypeURL: api.ListenerType, All: g.listeners, Scope: outbound},
		{TypeURL: api.RouteType, Named: g.routes, Affected: routesAffected, Scope: outbound, Local: g.local},
	}
}

// local reports whether name is g.Local.
func (g *Generators) local(name string) bool { return name == g.Local }

// outbound returns k without Inbound, PeerAuthentications and TransitionModes, so that classes that
// differ only in these share the resources.
func outbound(k view.Key) view.Key {
	k.Inbound, k.PeerAuthentications, k.TransitionModes = "", snapshot.Peers{}, ""
	return k
}

// clusters returns the black hole cluster and a cluster for each service of the View.
func (g *Generators) clusters(v *view.View) []*resource.Resource {
	g.called(api.ClusterType)
	list := []*resource.Resource{
		resource.FromBytes("BlackHoleCluster", api.ClusterType, text(nil, 1, "BlackHoleCluster")),
	}
	for _, svc := range v.Services {
		list = append(list, cluster(svc))
	}
	return list
}

// clustersSince returns the difference of clusters between two Views, by the services that changed.
// ok is false, and no call is counted, if it is unknown.
func (g *Generators) clustersSince(old, v *view.View, d snapshot.Delta) (diff resource.Diff, ok bool) {
	differs, ok := v.DiffSince(old, d)
	if !ok {
		return diff, false
	}
	g.called(api.ClusterType)
	for _, h := range differs.Services {
		if svc := v.Service(h); svc != nil {
			diff.Updated = append(diff.Updated, cluster(svc))
		} else {
			diff.Removed = append(diff.Removed, mesh.ClusterName{Direction: mesh.Outbound, Port: 80, Host: h}.String())
		}
	}
	return diff, true
}

// cluster returns the EDS cluster of a service at port 80.
func cluster(svc *mesh.Service) *resource.Resource {
	name := mesh.ClusterName{Direction: mesh.Outbound, Port: 80, Host: svc.Host}.String()
	b := text(nil, 1, name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), 3) // type: EDS
	b = message(b, 3, text(nil, 2, name))                                          // eds_cluster_config.service_name
	return resource.FromBytes(name, api.ClusterType, b, svc.From)
}

// endpoints returns the ClusterLoadAssignment of a cluster with all endpoints of its service, of
// which TLS endpoints have metadata for envoy.transport_socket_match. It has no endpoints if the
// View has no such service, and is nil if the name is not the name of a cluster. It counts the
// call.
func (g *Generators) endpoints(v *view.View, name string) *resource.Resource {
	g.called(api.EndpointType)
	b := text(nil, 1, name)
	cluster, err := mesh.ParseClusterName(name)
	if err != nil {
		return nil
	}
	if svc := v.Service(cluster.Host); svc != nil {
		for _, e := range v.Endpoints(svc).Endpoints {
			address := protowire.AppendVarint(
				protowire.AppendTag(text(nil, 2, e.Address), 3, protowire.VarintType),
				uint64(e.Port),
			)
			endpoint := message(nil, 1, message(nil, 1, message(nil, 1, address)))
			if e.TLS {
				endpoint = message(
					endpoint,
					3,
					message(nil, 1, message(text(nil, 1, "envoy.transport_socket_match"), 2, nil)),
				)
			}
			b = message(b, 2, message(nil, 2, endpoint))
		}
	}
	return resource.FromBytes(name, api.EndpointType, b)
}

// affected returns the names of clusters whose service or endpoints changed, in the order of names.
// A name may occur twice.
func affected(_, _ *view.View, d snapshot.Delta, names []string) []string {
	var list []string
	for _, n := range names {
		for _, changed := range []map[mesh.ServiceKey]struct{}{d.Endpoints, d.Services} {
			for k := range changed {
				if strings.HasSuffix(n, "|"+string(k.Host)) {
					list = append(list, n)
				}
			}
		}
	}
	return list
}

// routesAffected returns all of names, or nil if only endpoints changed.
func routesAffected(_, _ *view.View, d snapshot.Delta, names []string) []string {
	if d.EndpointsOnly() {
		return nil
	}
	return names
}

// listeners returns the listener 0.0.0.0_80 with its patches.
func (g *Generators) listeners(v *view.View) []*resource.Resource {
	g.called(api.ListenerType)
	b, from := patched(text(nil, 1, "0.0.0.0_80"), v, v.Key.EnvoyFilterPatches.Listeners)
	return []*resource.Resource{resource.FromBytes("0.0.0.0_80", api.ListenerType, b, from...)}
}

// patched appends the names and hashes of the EnvoyFilters in list to b, each as field 6. It
// returns the extended b and the keys of the EnvoyFilters. list may name one several times.
func patched(b []byte, v *view.View, list snapshot.PatchList) ([]byte, []config.Key) {
	var from []config.Key
	for _, p := range v.Snapshot.EnvoyPatches(list) {
		b = text(b, 6, fmt.Sprintf("%s-%x", p.Filter.Name, p.Filter.Hash))
		from = append(from, p.Filter.Key)
	}
	return b, from
}

// routes returns the RouteConfiguration of a name. Only "80" has hosts: a virtual host for each
// service and VirtualService, and its patches. It returns nil for "missing".
func (g *Generators) routes(v *view.View, name string) *resource.Resource {
	g.called(api.RouteType)
	if name == "missing" {
		return nil
	}
	b := text(nil, 1, name)
	if name != "80" {
		return resource.FromBytes(name, api.RouteType, b)
	}
	var from []config.Key
	host := func(name string) { b = message(b, 2, text(text(nil, 1, name), 2, name)) }
	for _, svc := range v.Services {
		host(string(svc.Host))
	}
	for _, vs := range v.Egress[0].VirtualServices {
		host(fmt.Sprintf("%s-%x", vs.Config.Name, vs.Config.Hash))
		from = append(from, vs.Config.Key)
	}
	b, filters := patched(b, v, v.Key.EnvoyFilterPatches.Routes)
	return resource.FromBytes(name, api.RouteType, b, append(from, filters...)...)
}

// text appends a string field of a protobuf message.
func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// message appends a field with the encoded message m.
func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}
