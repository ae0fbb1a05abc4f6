package snapshot

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// MeshGateway is the name by which VirtualServices mean all sidecars.
const MeshGateway = "mesh"

// VirtualService is one VirtualService with its names resolved. It is a row.
type VirtualService struct {
	Config *config.Config
	// Spec has the routes of delegates where the object leaves requests to them.
	Spec *networking.VirtualService
	// Hosts are full names, in the order of the spec.
	Hosts []mesh.Hostname
	// Gateways are "mesh" or "namespace/name".
	Gateways []string
	// From is the object and its delegates, sorted.
	From []config.Key
	// Faults say which delegates, and which of their routes, are not in use, and why.
	Faults []config.Problem

	exportTo  []string
	domain    string
	delegates []delegate
	sources   []map[string]string
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

// Meets says whether some namespace sees both objects.
func (v *VirtualService) Meets(o *VirtualService) bool {
	return slices.ContainsFunc(v.exportTo, func(ns string) bool {
		return ns == "*" && len(o.exportTo) > 0 || slices.Contains(o.exportTo, "*") || slices.Contains(o.exportTo, ns)
	})
}

func newVirtualService(c *config.Config, settings *Settings, find findConfig) *VirtualService {
	spec := config.Spec[*networking.VirtualService](c)
	v := &VirtualService{
		Config: c, Spec: spec, From: []config.Key{c.Key}, domain: settings.Domain,
		exportTo:  exportTo(spec.ExportTo, settings.Mesh.DefaultVirtualServiceExportTo, c.Namespace),
		delegates: delegatesOf(c, spec, settings, find),
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
	v.takeDelegates()
	if len(v.Hosts) > 0 { // a delegate's own routes are nobody's
		v.sources = sourceLabels(v.Spec)
	}
	return v
}

// same says whether two rows were made of the same things.
func (v *VirtualService) same(o *VirtualService) bool {
	return v.Config == o.Config && v.domain == o.domain && slices.Equal(v.exportTo, o.exportTo) && slices.Equal(v.delegates, o.delegates)
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

// sourceLabels collects the label selectors by which routes look at where a request comes from.
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

// SelectorText writes a label selector canonically: "app=x,version=v1".
func SelectorText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}
