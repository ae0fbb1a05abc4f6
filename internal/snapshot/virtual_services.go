package snapshot

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// MeshGateway is the name that selects all sidecars in the gateways of a VirtualService.
const MeshGateway = "mesh"

// VirtualService is a VirtualService with resolved names and inlined delegates. It is immutable,
// and its pointer changes only with its content.
type VirtualService struct {
	Config *config.Config
	// Spec contains the routes of delegates in place of the routes that delegate.
	Spec *networking.VirtualService
	// Hosts are fully qualified names, in the order of the spec.
	Hosts []mesh.Hostname
	// Gateways are "mesh" or "namespace/name".
	Gateways []string
	// From contains the object and its delegates, sorted.
	From []config.Key
	// Faults are Problems about delegates, or routes of delegates, that are not used.
	Faults []config.Problem

	exportTo  []string
	domain    string
	delegates []delegate
	sources   []map[string]string
}

// ResolveHost returns the full name of a destination's host. A short name is resolved in the
// namespace of the object.
func (v *VirtualService) ResolveHost(host string) mesh.Hostname {
	return mesh.ResolveShortName(host, v.Config.Namespace, v.domain)
}

// IsVisibleTo reports whether the object is exported to proxies of a namespace.
func (v *VirtualService) IsVisibleTo(namespace string) bool {
	return slices.Contains(v.exportTo, "*") || slices.Contains(v.exportTo, namespace)
}

// IsPrivate reports whether the object is exported only to its own namespace.
func (v *VirtualService) IsPrivate() bool {
	return len(v.exportTo) == 1 && v.exportTo[0] == v.Config.Namespace
}

// ExportRank orders the VirtualServices of one host that a namespace sees, the lowest first: 0 for
// one exported only to its own namespace, 1 if it is exported to namespaces by name, and 2 if it is
// exported to all.
func (v *VirtualService) ExportRank() int {
	switch {
	case v.IsPrivate():
		return 0
	case slices.Contains(v.exportTo, "*"):
		return 2
	default:
		return 1
	}
}

// AppliesByAddress reports whether HTTP routes of the Gateway API in the object apply to all
// requests that are sent to this port of the addresses of its hosts, whatever host a request names.
// It returns false for VirtualServices that users wrote.
func (v *VirtualService) AppliesByAddress(port uint32) bool {
	if !v.Config.Extension.AppliesByAddress() {
		return false
	}
	return slices.ContainsFunc(v.Spec.GetHttp(), func(r *networking.HTTPRoute) bool {
		return len(r.Match) == 0 || slices.ContainsFunc(r.Match, func(m *networking.HTTPMatchRequest) bool {
			return m.Port == 0 || m.Port == port
		})
	})
}

// SharesNamespaceWith reports whether at least one namespace sees both objects, by their exportTo.
// An object that is exported nowhere shares none.
func (v *VirtualService) SharesNamespaceWith(o *VirtualService) bool {
	return slices.ContainsFunc(v.exportTo, func(ns string) bool {
		return ns == "*" && len(o.exportTo) > 0 || slices.Contains(o.exportTo, "*") || slices.Contains(o.exportTo, ns)
	})
}

// virtualServiceExportTo is resolveExportTo, except that "~" hides a VirtualService also beside
// other namespaces, unless "*" is there too. Only the defaults of a mesh can have them together.
func virtualServiceExportTo(list, defaults []string, namespace string) []string {
	to := resolveExportTo(list, defaults, namespace)
	if len(list) == 0 && slices.Contains(defaults, "~") && !slices.Contains(to, "*") {
		return nil
	}
	return to
}

// newVirtualService returns the row of a VirtualService: with resolved names and the routes of its
// delegates inlined, and Problems about unused delegates in Faults. Without gateways it is bound to
// the mesh. A VirtualService without hosts, which is a delegate, contributes no sourceLabels.
func newVirtualService(c *config.Config, settings *Settings, find findConfig) *VirtualService {
	spec := config.Spec[*networking.VirtualService](c)
	v := &VirtualService{
		Config: c, Spec: spec, From: []config.Key{c.Key}, domain: settings.Domain,
		exportTo:  virtualServiceExportTo(spec.ExportTo, settings.Mesh.DefaultVirtualServiceExportTo, c.Namespace),
		delegates: resolveDelegates(c, spec, settings, find),
	}
	for _, h := range spec.Hosts {
		v.Hosts = append(v.Hosts, v.ResolveHost(h))
	}
	for _, g := range spec.Gateways {
		v.Gateways = append(v.Gateways, ResolveGateway(g, c.Namespace))
	}
	if len(spec.Gateways) == 0 {
		v.Gateways = []string{MeshGateway}
	}
	if c.Extension != nil {
		v.From = []config.Key{c.Extension.Source, c.Key}
	}
	v.inlineDelegates()
	if len(v.Hosts) > 0 { // the routes of a delegate apply only where they are inlined
		v.sources = sourceLabels(v.Spec)
	}
	return v
}

// ResolveVirtualService returns the row that a VirtualService, which need not be part of the
// snapshot, would have in it.
func (s *Snapshot) ResolveVirtualService(c *config.Config) *VirtualService {
	return newVirtualService(c, s.Settings, s.Config)
}

// hasSameInputs reports whether two rows were built from the same inputs. The objects are compared
// by pointer.
func (v *VirtualService) hasSameInputs(o *VirtualService) bool {
	return v.Config == o.Config && v.domain == o.domain && slices.Equal(v.exportTo, o.exportTo) &&
		slices.Equal(v.delegates, o.delegates)
}

// ResolveGateway returns the full name of a gateway that an object of namespace references: "mesh",
// or "namespace/name". A namespace of ".", or none, is the object's.
func ResolveGateway(name, namespace string) string {
	if name == MeshGateway || strings.Contains(name, "/") {
		if ns, n, ok := strings.Cut(name, "/"); ok && ns == "." {
			return namespace + "/" + n
		}
		return name
	}
	return namespace + "/" + name
}

// sourceLabels returns the sourceLabels of all matches of HTTP, TCP and TLS routes, except empty
// ones. Duplicates are kept, and the maps are shared with spec.
func sourceLabels(spec *networking.VirtualService) []map[string]string {
	var list []map[string]string
	note := func(labels map[string]string) {
		if len(labels) > 0 {
			list = append(list, labels)
		}
	}
	for _, r := range spec.Http {
		for _, m := range r.Match {
			note(m.SourceLabels)
		}
	}
	for _, r := range spec.Tcp {
		for _, m := range r.Match {
			note(m.SourceLabels)
		}
	}
	for _, r := range spec.Tls {
		for _, m := range r.Match {
			note(m.SourceLabels)
		}
	}
	return list
}

// SelectorText formats a label selector canonically, sorted by key: "app=x,version=v1". No labels
// are "".
func SelectorText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}
