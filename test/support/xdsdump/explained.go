package xdsdump

import (
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// ExplainResources returns the generators' output for a View, in the form that package explain reads.
// Object is the caller's to set.
func ExplainResources(table *translate.Table, v *view.View) *explain.Resources {
	return &explain.Resources{
		Listeners: allOfType(table, v, api.ListenerType), Clusters: allOfType(table, v, api.ClusterType),
		Named: func(typeURL, name string) *resource.Resource { return namedResource(table, v, typeURL, name) },
	}
}
