package snapshot

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
)

// MeshGateway is the name by which VirtualServices mean all sidecars.
const MeshGateway = "mesh"

// VirtualService is one VirtualService with its names resolved. It is a row.
type VirtualService struct {
	Config *config.Config
	Spec   *networking.VirtualService
	// Hosts are full names, in the order of the spec.
	Hosts []mesh.Hostname
	// Gateways are "mesh" or "namespace/name".
	Gateways []string
	// From is the object and what else shaped the row.
	From []config.Key

	exportTo []string
	domain   string
}

// Resolve expands a destination's host as this object means it: a short name is a service of its namespace.
func (v *VirtualService) Resolve(host string) mesh.Hostname {
	return mesh.ResolveShortName(host, v.Config.Namespace, v.domain)
}

// VisibleTo says whether proxies of the namespace see the object (exportTo).
func (v *VirtualService) VisibleTo(namespace string) bool {
	return slices.Contains(v.exportTo, "*") || slices.Contains(v.exportTo, namespace)
}

// Private says whether only its own namespace sees it.
func (v *VirtualService) Private() bool {
	return len(v.exportTo) == 1 && v.exportTo[0] == v.Config.Namespace
}

// rebuiltVirtualServices makes the rows for the objects given, oldest first, keeping every row whose object is the same.
func rebuiltVirtualServices(old []*VirtualService, list []*config.Config, settings *Settings) []*VirtualService {
	known := make(map[*config.Config]*VirtualService, len(old))
	for _, v := range old {
		known[v.Config] = v
	}
	rows := make([]*VirtualService, 0, len(list))
	for _, c := range list {
		row := newVirtualService(c, settings)
		if k := known[c]; k != nil && slices.Equal(k.exportTo, row.exportTo) && k.domain == row.domain {
			row = k
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *VirtualService) int { return config.Older(a.Config, b.Config) })
	return rows
}

func newVirtualService(c *config.Config, settings *Settings) *VirtualService {
	spec := config.Spec[*networking.VirtualService](c)
	v := &VirtualService{
		Config: c, Spec: spec, From: []config.Key{c.Key}, domain: settings.Domain,
		exportTo: exportTo(spec.ExportTo, settings.Mesh.DefaultVirtualServiceExportTo, c.Namespace),
	}
	for _, h := range spec.Hosts {
		v.Hosts = append(v.Hosts, v.Resolve(h))
	}
	for _, g := range spec.Gateways {
		v.Gateways = append(v.Gateways, ResolveGateway(g, c.Namespace))
	}
	if len(spec.Gateways) == 0 {
		v.Gateways = []string{MeshGateway}
	}
	return v
}

// ResolveGateway gives a gateway's full name as an object of the namespace means it: "mesh" or "namespace/name".
func ResolveGateway(name, namespace string) string {
	if name == MeshGateway || strings.Contains(name, "/") {
		if ns, n, ok := strings.Cut(name, "/"); ok && ns == "." {
			return namespace + "/" + n
		}
		return name
	}
	return namespace + "/" + name
}

// sourceSelectors collects the distinct label selectors by which routes look at where a request comes from.
func sourceSelectors(list []*VirtualService) []map[string]string {
	seen := map[string]map[string]string{}
	note := func(labels map[string]string) {
		if len(labels) > 0 {
			seen[SelectorText(labels)] = labels
		}
	}
	for _, v := range list {
		for _, r := range v.Spec.Http {
			for _, m := range r.Match {
				note(m.SourceLabels)
			}
		}
		for _, r := range v.Spec.Tcp {
			for _, m := range r.Match {
				note(m.SourceLabels)
			}
		}
		for _, r := range v.Spec.Tls {
			for _, m := range r.Match {
				note(m.SourceLabels)
			}
		}
	}
	var out []map[string]string
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		out = append(out, seen[k])
	}
	return out
}

// SelectorText writes a label selector canonically: "app=x,version=v1".
func SelectorText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}
