package patch

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Pass applies patches to the resources of Views and caches the outcomes. It is safe for concurrent
// use. The names that its methods receive identify the patches for the View's proxies
// (snapshot.PatchNames); with an empty list they return immediately.
type Pass struct {
	filters   *memo.Table[*config.Config, *filter]
	lists     *memo.KeyedTable[[]*patch, string, *list]
	clusters  *memo.Table[task, *outcome]
	listeners *memo.Table[task, *outcome]
	routes    *memo.Table[task, *outcome]
	hosts     *memo.Table[hostTask, *hostOutcome]
	added     *memo.Table[addition, *resource.Resource]
	ids       atomic.Uint64
}

// hostTask is an encoded VirtualHost, with the patches that match its RouteConfiguration.
type hostTask struct {
	body    string
	patches *list
}

// New returns a Pass with empty caches.
func New() *Pass {
	p := &Pass{
		lists:     memo.NewKeyed(patchIDs, newList),
		clusters:  memo.New(patchCluster),
		listeners: memo.New(patchListener),
		hosts:     memo.New(patchEncodedHost),
		added:     memo.New(newAddition),
	}
	p.filters = memo.New(p.parseFilter)
	p.routes = memo.New(p.patchRoutes)
	return p
}

// Computed returns how many resources and virtual hosts have been patched since the start. Cached
// outcomes are not counted.
func (p *Pass) Computed() uint64 {
	return p.clusters.Computed() + p.listeners.Computed() + p.routes.Computed() + p.hosts.Computed()
}

// Edited reports whether a change includes an edit of one of the patches in names; d.All includes
// any. If so, patched resources may differ although the generated ones do not. It returns false if
// names is empty.
func Edited(names snapshot.PatchList, d snapshot.Delta) bool {
	if names == "" {
		return false
	}
	for k := range d.Configs {
		if names.Has(k) {
			return true
		}
	}
	return d.All
}

// Clusters returns clusters of a View with patches applied, without removed ones. list is not
// modified, and returned as it is if no patch applies.
func (p *Pass) Clusters(v *view.View, names snapshot.PatchList, list []*resource.Resource) []*resource.Resource {
	return p.patchEach(p.set(v, names), v, list, p.patchCluster, nil)
}

// Listeners returns listeners of a View with patches applied, without removed ones. list is not
// modified, and returned as it is if no patch applies.
func (p *Pass) Listeners(v *view.View, names snapshot.PatchList, list []*resource.Resource) []*resource.Resource {
	return p.patchEach(p.set(v, names), v, list, p.patchListener, nil)
}

// Since returns the difference d with updated, the patched resources, in place of d.Updated.
// Resources of d.Updated that updated no longer has, because patches removed them, are added to
// Removed.
func Since(d resource.Diff, updated []*resource.Resource) resource.Diff {
	if len(updated) == len(d.Updated) {
		return resource.Diff{Updated: updated, Removed: d.Removed}
	}
	left := make(map[string]bool, len(updated))
	for _, r := range updated {
		left[r.Name] = true
	}
	removed := slices.Clone(d.Removed)
	for _, r := range d.Updated {
		if !left[r.Name] {
			removed = append(removed, r.Name)
		}
	}
	slices.Sort(removed)
	return resource.Diff{Updated: updated, Removed: slices.Compact(removed)}
}

// Routes returns the RouteConfiguration r of a View with patches applied, or r itself, which may be
// nil, if no patch may match.
func (p *Pass) Routes(v *view.View, names snapshot.PatchList, r *resource.Resource) *resource.Resource {
	s := p.set(v, names)
	if s == nil || r == nil {
		return r
	}
	o, _ := p.patchConfiguration(s, v, r)
	if o == nil {
		return r
	}
	return o.resource
}

// step patches one resource, and returns the outcome with the list of its patches. Both are nil if
// no patch may match it.
type step func(s *set, v *view.View, r *resource.Resource) (*outcome, *list)

// patchCluster applies the patches of s that may match a cluster, and returns their cached outcome
// and the list of these patches. Both are nil if no patch may match.
func (p *Pass) patchCluster(s *set, v *view.View, r *resource.Resource) (*outcome, *list) {
	l := s.forCluster(v, r)
	if l == nil {
		return nil, nil
	}
	return p.clusters.Get(task{resource: r, patches: l}), l
}

// patchListener applies the patches of s that may match a listener, and returns their cached
// outcome and the list of these patches. Both are nil if no patch may match.
func (p *Pass) patchListener(s *set, v *view.View, r *resource.Resource) (*outcome, *list) {
	l := s.forListener(v, r)
	if l == nil {
		return nil, nil
	}
	return p.listeners.Get(task{resource: r, patches: l, gateway: isGateway(v)}), l
}

// patchConfiguration applies the patches of s that may match a RouteConfiguration, and returns
// their cached outcome and the list of these patches. Both are nil if no patch may match.
func (p *Pass) patchConfiguration(s *set, v *view.View, r *resource.Resource) (*outcome, *list) {
	l := s.forRoutes(v, r)
	if l == nil {
		return nil, nil
	}
	return p.routes.Get(task{resource: r, patches: l, gateway: isGateway(v)}), l
}

// patchRoutes returns the outcome of a task for a RouteConfiguration. Its virtual hosts are cached
// one by one.
func (p *Pass) patchRoutes(k task) *outcome {
	return patchRoutes(k, func(body []byte) *hostOutcome { return p.hosts.Get(hostTask{string(body), k.patches}) })
}

// patchEncodedHost returns the outcome of patchHost for the task, with all of its patches active.
func patchEncodedHost(k hostTask) *hostOutcome { return patchHost([]byte(k.body), k.patches, nil) }

// isGateway reports whether the View's proxies are not sidecars.
func isGateway(v *view.View) bool { return v.Key.Type != mesh.SidecarProxy }

// patchEach returns list with each resource patched by one, without removed resources. It returns
// list itself if s is nil. If note is not nil, it is called with the outcome and patches of each
// resource that a patch may match. list is not modified.
func (p *Pass) patchEach(
	s *set,
	v *view.View,
	list []*resource.Resource,
	one step,
	note func(*resource.Resource, *outcome, *list),
) []*resource.Resource {
	if s == nil {
		return list
	}
	out := list
	for i, r := range list {
		o, l := one(s, v, r)
		if o == nil {
			continue
		}
		if note != nil {
			note(r, o, l)
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[i] = o.resource
	}
	return slices.DeleteFunc(out, func(r *resource.Resource) bool { return r == nil })
}

// setKey is the key of a set among the values derived from a snapshot.
type setKey struct {
	pass  *Pass
	names snapshot.PatchList
}

// set returns the parsed patches of names, once per snapshot, without patches that cannot be
// applied. It returns nil if there are none.
func (p *Pass) set(v *view.View, names snapshot.PatchList) *set {
	if names == "" {
		return nil
	}
	return snapshot.Derive(v.Snapshot.Derived, setKey{p, names}, func() *set {
		s := &set{pass: p, lists: map[string]*list{}}
		for _, e := range v.Snapshot.EnvoyPatches(names) {
			f := p.filters.Get(e.Filter)
			if x := f.patches[e.Index]; x != nil {
				s.patches = append(s.patches, x)
			}
		}
		if len(s.patches) == 0 {
			return nil
		}
		s.values = valuesOf(s.patches)
		return s
	})
}

// parseFilter parses an EnvoyFilter and assigns an ID to each of its patches that can be applied.
// IDs are unique in p.
func (p *Pass) parseFilter(c *config.Config) *filter {
	f := parseFilter(c.Key, config.Spec[*networking.EnvoyFilter](c), c.Annotations[config.RequiredAnnotation] == "false")
	for _, x := range f.patches {
		if x != nil {
			x.id = p.ids.Add(1)
		}
	}
	return f
}

// list returns the list of the patches of s whose indexes, each a varint, are in places.
func (p *Pass) list(s *set, places []byte) *list {
	var patches []*patch
	for len(places) > 0 {
		i, n := binary.Uvarint(places)
		places = places[n:]
		patches = append(patches, s.patches[i])
	}
	return p.lists.Get(patches)
}

// patchIDs returns the key of a list: the IDs of its patches, each as a varint.
func patchIDs(patches []*patch) string {
	var buffer [64]byte
	ids := buffer[:0]
	for _, x := range patches {
		ids = binary.AppendUvarint(ids, x.id)
	}
	return string(ids)
}

// newList returns a list of the patches, which it retains, with their values (valuesOf).
func newList(patches []*patch) *list { return &list{patches: patches, values: valuesOf(patches)} }
