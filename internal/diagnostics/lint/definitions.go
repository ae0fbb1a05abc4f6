package lint

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// definition is the part of a CustomResourceDefinition that is checked.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
}

// checkDefinitions reports CustomResourceDefinitions of the Gateway API that serve no version that
// the control plane reads. One Problem is added for each; definitions of other groups are skipped.
func (r *analysisRun) checkDefinitions() {
	for _, o := range r.ofKind("CustomResourceDefinition") {
		spec := decodeAs[definition](o).Spec
		for _, k := range api.Kinds() {
			if !k.Custom || k.Group != spec.Group || k.Plural != spec.Names.Plural ||
				!strings.HasPrefix(k.Group, "gateway.networking.") {
				continue
			}
			read := false
			for _, v := range spec.Versions {
				read = read || (v.Served && slices.Contains(k.Versions, v.Name))
			}
			if !read {
				r.report(
					code.GatewayAPICRDVersionBelowMinimum,
					o,
					"spec.versions",
					"serves none of the versions %s, so objects of the kind are not read",
					strings.Join(k.Versions, ", "),
				)
			}
		}
	}
}
