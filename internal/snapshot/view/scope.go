package view

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Egress is what may be called through one outbound listener.
type Egress struct {
	// Listener is the Sidecar's egress listener; nil is the one for everything.
	Listener *networking.IstioEgressListener
	// Services are the imported services of the listener, sorted by hostname, one per hostname, without those that are only route
	// destinations.
	Services []*mesh.Service
	// VirtualServices are those for sidecars, oldest first; ones exported to their own namespace only go before.
	VirtualServices []*snapshot.VirtualService
}

// scope is the outbound side of a View: the same for all proxies of one namespace and Sidecar.
type scope struct {
	egress   []*Egress
	services []*mesh.Service
	byHost   map[mesh.Hostname]*mesh.Service
	// ports are the imported ports of services that are imported in part only, sorted.
	ports   map[mesh.Hostname][]uint32
	unknown Unknown
}

type scopeKey struct {
	catalog catalogKey
	sidecar config.Key
}

func scopeOf(s *snapshot.Snapshot, k Key) *scope {
	return snapshot.Derive(s.Visibility, scopeKey{catalogKeyOf(k), k.Sidecar}, func() *scope {
		return newScope(s, k, s.Config(k.Sidecar))
	})
}

func newScope(s *snapshot.Snapshot, k Key, sidecar *config.Config) *scope {
	namespace := k.Namespace
	var spec *networking.Sidecar
	if sidecar != nil {
		spec = config.Spec[*networking.Sidecar](sidecar)
	}
	c := catalogOf(s, catalogKeyOf(k))
	all := visible{services: c.visible, virtualServices: visibleVirtualServices(s, namespace)}
	sc := &scope{unknown: unknownOf(s.Settings, sidecar)}
	if len(spec.GetEgress()) == 0 {
		sc.egress = []*Egress{{Services: c.services, VirtualServices: all.virtualServices}}
		sc.services, sc.byHost = c.services, c.byHost
		return sc
	}
	for _, l := range spec.GetEgress() {
		sc.egress = append(sc.egress, all.egress(l, preferenceOf(k)))
	}
	sc.importServices(c.byHost, namespace)
	return sc
}

func compareServices(a, b *mesh.Service) int { return strings.Compare(string(a.Host), string(b.Host)) }

// visible is what a namespace sees before a Sidecar narrows it.
type visible struct {
	services        []*mesh.Service
	virtualServices []*snapshot.VirtualService
}

// catalog is the services that a namespace sees without a Sidecar, the same whatever the rules for them.
type catalog struct {
	visible  []*mesh.Service // sorted by hostname and namespace
	services []*mesh.Service // one per hostname
	byHost   map[mesh.Hostname]*mesh.Service
}

type catalogKey struct {
	preference
	allocated bool
	home      mesh.ClusterID
}

func catalogKeyOf(k Key) catalogKey {
	return catalogKey{preferenceOf(k), k.Allocated, k.Home}
}

func catalogOf(s *snapshot.Snapshot, k catalogKey) *catalog {
	return snapshot.Derive(s.Catalog, k, func() *catalog {
		c := &catalog{visible: visibleServices(s, k), byHost: map[mesh.Hostname]*mesh.Service{}}
		c.services = k.preferred(c.visible)
		for _, svc := range c.services {
			c.byHost[svc.Host] = svc
		}
		return c
	})
}

// visibleServices gives the services that are exported to a namespace; those that were given addresses as callers see them
// who know those, and those of several clusters as callers in one know them.
func visibleServices(s *snapshot.Snapshot, k catalogKey) []*mesh.Service {
	defaults := s.Settings.Mesh.DefaultServiceExportTo
	var list []*mesh.Service
	for _, svc := range s.Services() {
		if !exported(svc, defaults, k.namespace) {
			continue
		}
		if k.allocated {
			svc = s.Allocated(svc)
		}
		svc = s.KnownIn(k.home, svc)
		list = append(list, svc)
	}
	return list
}

func exported(svc *mesh.Service, defaults []string, namespace string) bool {
	to := svc.ExportTo
	if len(to) == 0 {
		to = defaults
	}
	if len(to) == 0 {
		return true
	}
	for _, ns := range to {
		if ns == "*" || ns == namespace || ns == "." && svc.Namespace == namespace {
			return true
		}
	}
	return false
}

func visibleVirtualServices(s *snapshot.Snapshot, namespace string) []*snapshot.VirtualService {
	var private, public []*snapshot.VirtualService
	for _, vs := range s.VirtualServices() {
		switch {
		case !slices.Contains(vs.Gateways, snapshot.MeshGateway) || len(vs.Hosts) == 0 || !vs.VisibleTo(namespace):
		case vs.Private():
			private = append(private, vs)
		default:
			public = append(public, vs)
		}
	}
	return append(private, public...)
}

// preference is whose service is taken where several namespaces have one of a hostname.
type preference struct {
	namespace string
	// gateway proxies take a Kubernetes Service before a ServiceEntry of their own namespace.
	gateway bool
}

func preferenceOf(k Key) preference {
	return preference{namespace: k.Namespace, gateway: k.Type == mesh.RouterProxy}
}

// preferred returns one service per hostname, sorted by hostname.
func (p preference) preferred(list []*mesh.Service) []*mesh.Service {
	best := map[mesh.Hostname]*mesh.Service{}
	for _, svc := range list {
		if b := best[svc.Host]; b == nil || p.before(svc, b) {
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

// before reports whether a is taken rather than b of the same hostname. Sidecars take a service of their own namespace, then one of
// Kubernetes, then the oldest, as in Istio: a ServiceEntry overrides a host for its namespace. Gateways take one of Kubernetes first.
func (p preference) before(a, b *mesh.Service) bool {
	ownA, ownB := a.Namespace == p.namespace, b.Namespace == p.namespace
	if ownA != ownB && !p.gateway {
		return ownA
	}
	if ak, bk := a.Provider == mesh.Kubernetes, b.Provider == mesh.Kubernetes; ak != bk {
		return ak
	}
	if ownA != ownB {
		return ownA
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

// imported is what an egress listener imports: what one of its patterns takes and none of the excluded ones.
type imported struct{ patterns, excluded []hostPattern }

// importedBy reads egress.hosts. A "~" before the namespace excludes, and "~" alone does so in all namespaces: "~/*" leaves
// nothing.
func importedBy(hosts []string, own string) imported {
	var in imported
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

func (in imported) service(svc *mesh.Service) bool {
	selects := func(p hostPattern) bool { return p.selects(svc.Namespace, svc.Host) }
	return slices.ContainsFunc(in.patterns, selects) && !slices.ContainsFunc(in.excluded, selects)
}

// virtualService says whether a VirtualService is imported: by any of its hosts that is not excluded.
func (in imported) virtualService(vs *snapshot.VirtualService) bool {
	return slices.ContainsFunc(vs.Hosts, func(h mesh.Hostname) bool {
		return slices.ContainsFunc(in.patterns, func(p hostPattern) bool { return p.in(vs.Config.Namespace) && p.host.Matches(h) }) &&
			!slices.ContainsFunc(in.excluded, func(p hostPattern) bool { return p.selects(vs.Config.Namespace, h) })
	})
}

func (p hostPattern) in(namespace string) bool { return p.namespace == "*" || p.namespace == namespace }

func (p hostPattern) selects(namespace string, host mesh.Hostname) bool {
	return p.in(namespace) && p.host.Covers(host)
}

// egress narrows what is visible to what one egress listener of a Sidecar imports.
func (all visible) egress(l *networking.IstioEgressListener, p preference) *Egress {
	in := importedBy(l.Hosts, p.namespace)
	e := &Egress{Listener: l}
	if whole(l) {
		e.Listener = nil
	}
	for _, vs := range all.virtualServices {
		if in.virtualService(vs) {
			e.VirtualServices = append(e.VirtualServices, vs)
		}
	}
	var ports portSet
	if port, matches := importedPort(l); matches {
		ports = portSet{port: true}
	}
	var services []*mesh.Service
	for _, svc := range all.services {
		if in.service(svc) && hasAnyPort(svc, ports) {
			services = append(services, svc)
		}
	}
	e.Services = p.preferred(services)
	return e
}

// whole says that an egress listener is the one for everything that no other takes: no port, no bind.
func whole(l *networking.IstioEgressListener) bool {
	return l.Port == nil && l.Bind == "" && l.CaptureMode == networking.CaptureMode_DEFAULT
}
