package diff

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Translation generates the complete configuration of proxies for one snapshot. It must be used by
// one goroutine at a time.
type Translation struct{ inner *translation }

// NewTranslation returns a Translation with empty caches.
func NewTranslation(s *snapshot.Snapshot, generators []view.Generator) *Translation {
	return &Translation{newTranslation(s, generators, newReferenceCache())}
}

// Resources returns all resources of a proxy, sorted by type and name: all clusters and listeners,
// and the resources that these and their references name.
func (t *Translation) Resources(p *mesh.Proxy) []*resource.Resource {
	var list []*resource.Resource
	for _, r := range t.inner.resourcesOf(t.inner.keyOf(p)) {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *resource.Resource) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// ExplainResources returns the resources of a proxy, and the objects of the snapshot, in the form
// that package explain reads.
func (t *Translation) ExplainResources(p *mesh.Proxy) *explain.Resources {
	r := explainResources(t.inner.resourcesOf(t.inner.keyOf(p)))
	r.Object = t.inner.snapshot.Config
	return r
}

// View returns the View of the proxy's class.
func (t *Translation) View(p *mesh.Proxy) *view.View { return t.inner.viewOf(t.inner.keyOf(p)) }
