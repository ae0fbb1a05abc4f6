package view

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Egress contains the services and VirtualServices that can be called through one outbound
// listener.
type Egress struct {
	// Listener is the Sidecar's egress listener; nil is the catch-all listener.
	Listener *networking.IstioEgressListener
	// Services are the imported services of the listener, one per hostname, sorted by hostname.
	// Services that are only route destinations are not included.
	Services []*mesh.Service
	// VirtualServices are the VirtualServices for sidecars, by ExportRank, then the oldest first.
	VirtualServices []*snapshot.VirtualService
}

// scope is the outbound side of a View. It is equal for all proxies with the same namespace and
// Sidecar.
type scope struct {
	egress   []*Egress
	services []*mesh.Service
	byHost   map[mesh.Hostname]*mesh.Service
	// ports are the imported ports, sorted, of services of which not all ports are imported.
	ports         map[mesh.Hostname][]uint32
	trafficPolicy OutboundTrafficPolicy
}

type scopeKey struct {
	catalog catalogKey
	sidecar config.Key
}

// scopeOf returns the cached scope of a Key, or computes it.
func scopeOf(s *snapshot.Snapshot, k Key) *scope {
	return snapshot.Derive(s.Visibility, scopeKey{catalogKeyOf(k), k.Sidecar}, func() *scope {
		return newScope(s, k, s.Config(k.Sidecar))
	})
}

// newScope returns the services, VirtualServices and policy for unknown destinations that a Key
// sees. sidecar is nil if no Sidecar applies. With egress listeners the scope has the objects that
// the listeners import, and the destinations of imported routes (importServices). Without them it
// has all objects that are visible to the namespace.
func newScope(s *snapshot.Snapshot, k Key, sidecar *config.Config) *scope {
	namespace := k.Namespace
	var spec *networking.Sidecar
	if sidecar != nil {
		spec = config.Spec[*networking.Sidecar](sidecar)
	}
	c := catalogOf(s, catalogKeyOf(k))
	all := visible{
		services: c.visible, virtualServices: visibleVirtualServices(s, namespace), exports: defaultExports(s),
	}
	sc := &scope{trafficPolicy: outboundTrafficPolicy(s.Settings, sidecar)}
	if len(spec.GetEgress()) == 0 {
		sc.egress = []*Egress{{Services: c.services, VirtualServices: all.virtualServices}}
		sc.services, sc.byHost = c.services, c.byHost
		return sc
	}
	for _, l := range spec.GetEgress() {
		sc.egress = append(sc.egress, all.egressFor(l, preferenceOf(k)))
	}
	sc.importServices(c.byHost, namespace)
	return sc
}

// compareServices orders services by hostname only.
func compareServices(a, b *mesh.Service) int { return strings.Compare(string(a.Host), string(b.Host)) }

// visible contains the services and VirtualServices that a namespace sees before a Sidecar limits
// them.
type visible struct {
	services        []*mesh.Service
	virtualServices []*snapshot.VirtualService
	exports         []string // defaultExports
}

// catalog contains the services that a namespace sees without a Sidecar. It does not depend on
// rules.
type catalog struct {
	visible  []*mesh.Service // sorted by hostname and namespace
	services []*mesh.Service // one per hostname
	byHost   map[mesh.Hostname]*mesh.Service
}

// catalogKey is the part of a Key that determines a catalog. allocated is
// Key.KnowsAllocatedAddresses, home is Key.VIPCluster.
type catalogKey struct {
	preference
	allocated bool
	home      mesh.ClusterID
}

// catalogKeyOf returns the fields of k that determine its catalog.
func catalogKeyOf(k Key) catalogKey {
	return catalogKey{preferenceOf(k), k.KnowsAllocatedAddresses, k.VIPCluster}
}

// catalogOf returns the catalog of k, which is cached in s: the visible services, and of these the
// preferred one for each hostname.
func catalogOf(s *snapshot.Snapshot, k catalogKey) *catalog {
	return snapshot.Derive(s.Catalog, k, func() *catalog {
		c := &catalog{visible: visibleServices(s, k), byHost: map[mesh.Hostname]*mesh.Service{}}
		c.services = k.preferredServices(c.visible, defaultExports(s))
		for _, svc := range c.services {
			c.byHost[svc.Host] = svc
		}
		return c
	})
}

// visibleServices returns the services that are exported to the namespace of k, in the order of
// s.Services. They have the addresses that its callers use: allocated addresses if k.allocated, and
// the addresses in the cluster k.home for services in several clusters.
func visibleServices(s *snapshot.Snapshot, k catalogKey) []*mesh.Service {
	defaults := defaultExports(s)
	var list []*mesh.Service
	for _, svc := range s.Services() {
		if !svc.IsExportedTo(k.namespace, defaults) {
			continue
		}
		if k.allocated {
			svc = s.WithAllocatedAddresses(svc)
		}
		svc = s.ServiceForCluster(k.home, svc)
		list = append(list, svc)
	}
	return list
}

// defaultExports returns the exportTo of services that have none of their own.
func defaultExports(s *snapshot.Snapshot) []string {
	return s.Settings.Mesh.GetDefaultServiceExportTo()
}

// visibleVirtualServices returns the VirtualServices for sidecars that namespace sees, sorted by
// ExportRank and then the oldest first. Objects without hosts or without the gateway mesh are left
// out.
func visibleVirtualServices(s *snapshot.Snapshot, namespace string) []*snapshot.VirtualService {
	var list []*snapshot.VirtualService
	for _, vs := range s.VirtualServices() {
		if slices.Contains(vs.Gateways, snapshot.MeshGateway) && len(vs.Hosts) > 0 && vs.IsVisibleTo(namespace) {
			list = append(list, vs)
		}
	}
	sortByExport(list)
	return list
}

// sortByExport sorts VirtualServices by ExportRank, and leaves the order of equal ones.
func sortByExport(list []*snapshot.VirtualService) {
	slices.SortStableFunc(list, func(a, b *snapshot.VirtualService) int {
		return cmp.Compare(a.ExportRank(), b.ExportRank())
	})
}

// preference decides between services of several namespaces with the same hostname.
type preference struct {
	namespace string
	// gateway is set for proxies of type router, which do not prefer services of their own
	// namespace.
	gateway bool
}

// preferenceOf returns the preference of the proxies of k, by their namespace and type.
func preferenceOf(k Key) preference {
	return preference{namespace: k.Namespace, gateway: k.Type == mesh.RouterProxy}
}

// preferredServices returns one service of list per hostname, sorted by hostname: the service that
// p.prefers over the others. defaults are the defaultExports. list is not modified.
func (p preference) preferredServices(list []*mesh.Service, defaults []string) []*mesh.Service {
	best := map[mesh.Hostname]*mesh.Service{}
	for _, svc := range list {
		if b := best[svc.Host]; b == nil || p.prefers(svc, b, defaults) {
			best[svc.Host] = svc
		}
	}
	out := make([]*mesh.Service, 0, len(best))
	for _, svc := range best {
		out = append(out, svc)
	}
	slices.SortFunc(out, compareServices)
	return out
}

// prefers reports whether a takes precedence over b of the same hostname, as in Istio. Sidecars
// prefer a service of their own namespace: a ServiceEntry overrides a host for its namespace. Then,
// and for gateways first, a service of Kubernetes is preferred, then one that is not public, then
// the oldest. Of services of one age, the first namespace by name is preferred.
func (p preference) prefers(a, b *mesh.Service, defaults []string) bool {
	if ownA, ownB := a.Namespace == p.namespace, b.Namespace == p.namespace; ownA != ownB && !p.gateway {
		return ownA
	}
	if ak, bk := a.Provider == mesh.Kubernetes, b.Provider == mesh.Kubernetes; ak != bk {
		return ak
	}
	if publicA, publicB := a.IsPublic(defaults), b.IsPublic(defaults); publicA != publicB {
		return publicB
	}
	if !a.Created.Equal(b.Created) {
		return a.Created.Before(b.Created)
	}
	return a.Namespace < b.Namespace
}

// hostPattern is one entry of egress.hosts: "namespace/dnsName".
type hostPattern struct {
	namespace string // a namespace, or "*"
	host      mesh.Hostname
}

// ImportFilter selects the imports of an egress listener: hosts that match at least one pattern and
// no excluded one.
type ImportFilter struct{ patterns, excluded []hostPattern }

// ParseEgressHosts parses egress.hosts of a Sidecar in namespace own: NAMESPACE/HOST, where "." is
// own and a missing namespace is "*". "~" before a namespace excludes the host there, and "~" alone
// excludes it in all namespaces, so "~/*" imports nothing. Hosts become lower case. Entries without
// "/" are ignored.
func ParseEgressHosts(hosts []string, own string) ImportFilter {
	var in ImportFilter
	for _, h := range hosts {
		ns, name, ok := strings.Cut(h, "/")
		if !ok {
			continue
		}
		ns, exclude := strings.CutPrefix(ns, "~")
		switch ns {
		case "":
			ns = "*"
		case ".":
			ns = own
		}
		p := hostPattern{ns, mesh.Hostname(strings.ToLower(name))}
		if exclude {
			in.excluded = append(in.excluded, p)
		} else {
			in.patterns = append(in.patterns, p)
		}
	}
	return in
}

// SelectsService reports whether a service is imported: it matches a pattern and no excluded one.
func (in ImportFilter) SelectsService(svc *mesh.Service) bool {
	selects := func(p hostPattern) bool { return p.matchesHost(svc.Namespace, svc.Host) }
	return slices.ContainsFunc(in.patterns, selects) && !slices.ContainsFunc(in.excluded, selects)
}

// SelectsVirtualService reports whether a VirtualService is imported: at least one of its hosts
// overlaps with a pattern for its namespace, in either direction, and is covered by no excluded
// one.
func (in ImportFilter) SelectsVirtualService(vs *snapshot.VirtualService) bool {
	return slices.ContainsFunc(vs.Hosts, func(h mesh.Hostname) bool {
		return slices.ContainsFunc(
			in.patterns,
			func(p hostPattern) bool { return p.matchesNamespace(vs.Config.Namespace) && p.host.Matches(h) },
		) &&
			!slices.ContainsFunc(in.excluded, func(p hostPattern) bool { return p.matchesHost(vs.Config.Namespace, h) })
	})
}

// matchesNamespace reports whether p is for all namespaces ("*") or exactly for this one.
func (p hostPattern) matchesNamespace(namespace string) bool {
	return p.namespace == "*" || p.namespace == namespace
}

// matchesHost reports whether the pattern includes a host in a namespace. A wildcard of the pattern
// covers longer names.
func (p hostPattern) matchesHost(namespace string, host mesh.Hostname) bool {
	return p.matchesNamespace(namespace) && p.host.Covers(host)
}

// egressFor returns the part of the visible services and VirtualServices that one egress listener
// of a Sidecar imports: objects that its hosts select and, of services, the ones with its port. Of
// several services for a hostname, p selects one. Listener is nil in the result for a catch-all
// listener.
func (all visible) egressFor(l *networking.IstioEgressListener, p preference) *Egress {
	in := ParseEgressHosts(l.Hosts, p.namespace)
	e := &Egress{Listener: l}
	if isCatchAll(l) {
		e.Listener = nil
	}
	for _, vs := range all.virtualServices {
		if in.SelectsVirtualService(vs) {
			e.VirtualServices = append(e.VirtualServices, vs)
		}
	}
	var ports portSet
	if port, matches := ImportedPort(l); matches {
		ports = portSet{port: true}
	}
	var services []*mesh.Service
	for _, svc := range all.services {
		if in.SelectsService(svc) && hasAnyPort(svc, ports) {
			services = append(services, svc)
		}
	}
	e.Services = p.preferredServices(services, all.exports)
	return e
}

// isCatchAll reports whether an egress listener is the one for all traffic that no other listener
// handles: it has no port, no bind and no captureMode.
func isCatchAll(l *networking.IstioEgressListener) bool {
	return l.Port == nil && l.Bind == "" && l.CaptureMode == networking.CaptureMode_DEFAULT
}
