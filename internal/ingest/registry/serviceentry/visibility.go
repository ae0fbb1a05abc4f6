package serviceentry

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// exportTo gives where the ServiceEntry is visible: as it says itself, as far as the mesh allows
// (MeshConfig.serviceEntryVisibility, where applyToSidecars has it count for all proxies).
func (r *reader) exportTo(spec *networking.ServiceEntry) []string {
	own := spec.GetExportTo()
	if !r.mesh.GetServiceEntryVisibility().GetApplyToSidecars() {
		return own
	}
	declared := own
	if len(declared) == 0 {
		declared = r.mesh.GetDefaultServiceExportTo()
	}
	here := len(declared) == 0 || slices.ContainsFunc(declared, func(to string) bool {
		return to == "*" || to == "." || to == r.object.Namespace
	})
	limit := r.visibility()
	switch {
	case limit == meshconfig.ServiceEntryVisibility_NAMESPACE && here:
		if !slices.Equal(own, []string{"."}) {
			r.wrong(config.Warning, "spec.exportTo", "the mesh (serviceEntryVisibility) shows it to its own namespace only")
		}
		return []string{"."}
	case limit == meshconfig.ServiceEntryVisibility_NAMESPACE, limit == meshconfig.ServiceEntryVisibility_NONE:
		r.wrong(config.Warning, "spec.exportTo", "the mesh (serviceEntryVisibility) shows it to nobody")
		return []string{"~"}
	default:
		return own
	}
}

// visibility gives what the first policy says whose rules all hold.
func (r *reader) visibility() meshconfig.ServiceEntryVisibility_Visibility {
	v := r.mesh.GetServiceEntryVisibility()
	for _, p := range v.GetPolicies() {
		holds := true
		for _, rule := range p.GetMatchingRules() {
			holds = holds && selects(rule.GetNamespaceSelector(), r.namespaces[r.object.Namespace])
		}
		if holds {
			return p.GetVisibility()
		}
	}
	return v.GetDefaultVisibility()
}

// selects says whether a selector of MeshConfig chooses a namespace. One that cannot be read chooses none.
func selects(selector *meshconfig.LabelSelector, namespace map[string]string) bool {
	parsed, err := mesh.LabelSelector(selector)
	return err == nil && parsed.Matches(labels.Set(namespace))
}
