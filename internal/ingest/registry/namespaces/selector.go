package namespaces

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// parseSelectors returns the selectors of MeshConfig.discoverySelectors. It returns nil, which
// selects all namespaces, for an empty list. Invalid selectors are left out and reported in wrong.
func parseSelectors(list []*meshconfig.LabelSelector) (selectors []labels.Selector, wrong []config.Problem) {
	for i, s := range list {
		selector, err := mesh.LabelSelector(s)
		if err != nil {
			wrong = append(wrong, config.Problem{
				Code:     code.InvalidMeshSetting,
				Field:    fmt.Sprintf("discoverySelectors[%d]", i),
				Reason:   err.Error() + "; the previous selectors stay in use",
				Severity: config.Error,
				Origin:   "mesh configuration",
			})
			continue
		}
		selectors = append(selectors, selector)
	}
	return selectors, wrong
}
