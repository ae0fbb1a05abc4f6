package serviceentry

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// exportTo returns the namespaces to which the ServiceEntry is exported: its own exportTo, limited
// by MeshConfig.serviceEntryVisibility if applyToSidecars extends that to all proxies. "~" is no
// namespace. A limit that changes the result is reported as a Problem.
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
			r.addProblem(config.Warning, "spec.exportTo",
				"the mesh (serviceEntryVisibility) shows it to its own namespace only")
		}
		return []string{"."}
	case limit == meshconfig.ServiceEntryVisibility_NAMESPACE, limit == meshconfig.ServiceEntryVisibility_NONE:
		r.addProblem(config.Warning, "spec.exportTo", "serviceEntryVisibility of the mesh hides it from all namespaces")
		return []string{"~"}
	default:
		return own
	}
}

// visibility returns the visibility of the first policy whose rules all match the namespace, or the
// default of the mesh. Rules are label selectors of the namespace; a policy without rules matches
// all.
func (r *reader) visibility() meshconfig.ServiceEntryVisibility_Visibility {
	v := r.mesh.GetServiceEntryVisibility()
	for _, p := range v.GetPolicies() {
		holds := true
		for _, rule := range p.GetMatchingRules() {
			holds = holds && selectsNamespace(rule.GetNamespaceSelector(), r.namespaces[r.object.Namespace])
		}
		if holds {
			return p.GetVisibility()
		}
	}
	return v.GetDefaultVisibility()
}

// selectsNamespace reports whether a selector of MeshConfig matches a namespace. An invalid
// selector matches nothing.
func selectsNamespace(selector *meshconfig.LabelSelector, namespace map[string]string) bool {
	parsed, err := mesh.LabelSelector(selector)
	return err == nil && parsed.Matches(labels.Set(namespace))
}
