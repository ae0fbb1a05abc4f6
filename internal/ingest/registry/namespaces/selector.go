package namespaces

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// readSelectors reads MeshConfig.discoverySelectors, of which any may choose a namespace. An empty list chooses all: nil.
func readSelectors(list []*meshconfig.LabelSelector) (selectors []labels.Selector, wrong []config.Problem) {
	for i, s := range list {
		selector, err := mesh.LabelSelector(s)
		if err != nil {
			wrong = append(wrong, config.Problem{
				Field: fmt.Sprintf("discoverySelectors[%d]", i), Reason: err.Error() + "; the selectors before go on to count",
				Severity: config.Error, Origin: "mesh configuration",
			})
			continue
		}
		selectors = append(selectors, selector)
	}
	return selectors, wrong
}
