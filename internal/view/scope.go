package view

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Egress is what may be called through one outbound listener.
type Egress struct {
	// Listener is the Sidecar's egress listener; nil is the one for everything.
	Listener *networking.IstioEgressListener
	// Services are sorted by hostname, one per hostname.
	Services []*mesh.Service
	// VirtualServices are those for sidecars, oldest first; ones exported to their own namespace only go before.
	VirtualServices []*snapshot.VirtualService
}

// scope is the outbound side of a View: the same for all proxies of one namespace and Sidecar.
type scope struct {
	egress   []*Egress
	services []*mesh.Service
	byHost   map[mesh.Hostname]*mesh.Service
	allowAny bool
}

type scopeKey struct {
	namespace string
	sidecar   config.Key
}

func scopeOf(s *snapshot.Snapshot, k Key) *scope {
	return snapshot.Derive(s.Visibility, scopeKey{k.Namespace, k.Sidecar}, func() *scope {
		var spec *networking.Sidecar
		if c := s.Config(k.Sidecar); c != nil {
			spec = config.Spec[*networking.Sidecar](c)
		}
		return newScope(s, k.Namespace, spec)
	})
}

func newScope(s *snapshot.Snapshot, namespace string, sidecar *networking.Sidecar) *scope {
	all := visible{
		services:        visibleServices(s, namespace),
		virtualServices: visibleVirtualServices(s, namespace),
	}
	sc := &scope{allowAny: allowAny(s.Settings, sidecar)}
	if len(sidecar.GetEgress()) == 0 {
		e := &Egress{Services: preferred(all.services, namespace), VirtualServices: all.virtualServices}
		sc.egress = []*Egress{e}
	}
	for _, l := range sidecar.GetEgress() {
		sc.egress = append(sc.egress, all.egress(l, namespace))
	}
	sc.byHost = map[mesh.Hostname]*mesh.Service{}
	for _, e := range sc.egress {
		for _, svc := range e.Services {
			if sc.byHost[svc.Host] == nil {
				sc.byHost[svc.Host] = svc
				sc.services = append(sc.services, svc)
			}
		}
	}
	slices.SortFunc(sc.services, compareServices)
	return sc
}

func compareServices(a, b *mesh.Service) int { return strings.Compare(string(a.Host), string(b.Host)) }

func allowAny(settings *snapshot.Settings, sidecar *networking.Sidecar) bool {
	if p := sidecar.GetOutboundTrafficPolicy(); p != nil {
		return p.Mode == networking.OutboundTrafficPolicy_ALLOW_ANY
	}
	return settings.Mesh.GetOutboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY
}

// visible is what a namespace sees before a Sidecar narrows it.
type visible struct {
	services        []*mesh.Service
	virtualServices []*snapshot.VirtualService
}

func visibleServices(s *snapshot.Snapshot, namespace string) []*mesh.Service {
	defaults := s.Settings.Mesh.DefaultServiceExportTo
	var list []*mesh.Service
	for _, svc := range s.Services() {
		if exported(svc, defaults, namespace) {
			list = append(list, svc)
		}
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

// preferred leaves one service per hostname: Kubernetes' before others, then the namespace's own, then the oldest.
func preferred(list []*mesh.Service, namespace string) []*mesh.Service {
	best := map[mesh.Hostname]*mesh.Service{}
	for _, svc := range list {
		if b := best[svc.Host]; b == nil || before(svc, b, namespace) {
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

func before(a, b *mesh.Service, namespace string) bool {
	if ak, bk := a.Provider == mesh.Kubernetes, b.Provider == mesh.Kubernetes; ak != bk {
		return ak
	}
	if ao, bo := a.Namespace == namespace, b.Namespace == namespace; ao != bo {
		return ao
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

func hostPatterns(hosts []string, own string) []hostPattern {
	var list []hostPattern
	for _, h := range hosts {
		ns, name, ok := strings.Cut(h, "/")
		if !ok || ns == "~" {
			continue
		}
		if ns == "." {
			ns = own
		}
		list = append(list, hostPattern{ns, mesh.Hostname(strings.ToLower(name))})
	}
	return list
}

func (p hostPattern) selects(namespace string, host mesh.Hostname) bool {
	return (p.namespace == "*" || p.namespace == namespace) && p.host.Covers(host)
}

// egress narrows what is visible to what one egress listener of a Sidecar imports.
func (all visible) egress(l *networking.IstioEgressListener, namespace string) *Egress {
	patterns := hostPatterns(l.Hosts, namespace)
	e := &Egress{Listener: l}
	if whole(l) {
		e.Listener = nil
	}
	for _, vs := range all.virtualServices {
		if imports(patterns, vs) {
			e.VirtualServices = append(e.VirtualServices, vs)
		}
	}
	targets := destinations(e.VirtualServices)
	var services []*mesh.Service
	for _, svc := range all.services {
		if targets[svc.Host] || slices.ContainsFunc(patterns, func(p hostPattern) bool { return p.selects(svc.Namespace, svc.Host) }) {
			services = append(services, svc)
		}
	}
	e.Services = preferred(services, namespace)
	return e
}

// whole says that an egress listener is the one for everything that no other takes: no port, no bind.
func whole(l *networking.IstioEgressListener) bool {
	return l.Port == nil && l.Bind == "" && l.CaptureMode == networking.CaptureMode_DEFAULT
}

func imports(patterns []hostPattern, vs *snapshot.VirtualService) bool {
	for _, p := range patterns {
		for _, h := range vs.Hosts {
			if (p.namespace == "*" || p.namespace == vs.Config.Namespace) && p.host.Matches(h) {
				return true
			}
		}
	}
	return false
}

// destinations collects the hosts that imported VirtualServices route to: they become visible too.
func destinations(list []*snapshot.VirtualService) map[mesh.Hostname]bool {
	hosts := map[mesh.Hostname]bool{}
	for _, vs := range list {
		note := func(d *networking.Destination) {
			if d != nil {
				hosts[vs.Resolve(d.Host)] = true
			}
		}
		for _, r := range vs.Spec.Http {
			for _, d := range r.Route {
				note(d.Destination)
			}
			note(r.Mirror)
			for _, m := range r.Mirrors {
				note(m.Destination)
			}
		}
		for _, r := range vs.Spec.Tcp {
			for _, d := range r.Route {
				note(d.Destination)
			}
		}
		for _, r := range vs.Spec.Tls {
			for _, d := range r.Route {
				note(d.Destination)
			}
		}
	}
	return hosts
}
