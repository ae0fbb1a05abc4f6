package snapshot

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// virtualServices is the index of all VirtualServices. It is immutable.
type virtualServices struct {
	list []*VirtualService // oldest first
	// delegators maps a delegate, which need not exist, to the objects that delegate to it.
	delegators *cow.Map[config.Key, []config.Key]
	sources    map[string]selectorUse
	// selectors are the labels of sources, sorted by their text.
	selectors []map[string]string
}

// newVirtualServices returns an empty index.
func newVirtualServices() virtualServices {
	return virtualServices{delegators: cow.New[config.Key, []config.Key](), sources: map[string]selectorUse{}}
}

// selectorUse is a source label selector of routes, and the number of matches that use it.
type selectorUse struct {
	labels map[string]string
	uses   int
}

// VirtualServices returns all VirtualServices, oldest first. Delegates are included; they have no
// Hosts. Callers must not modify the list.
func (s *Snapshot) VirtualServices() []*VirtualService { return s.virtualServices.list }

// SourceSelectors returns the distinct source label selectors of all VirtualServices except
// delegates, sorted by their text. A proxy's labels affect its routes only by which of these
// selectors match.
func (s *Snapshot) SourceSelectors() []map[string]string { return s.virtualServices.selectors }

// Delegators returns the keys of the VirtualServices that delegate to an object, whether it exists
// or not; nil if there are none. Callers must not modify the list.
func (s *Snapshot) Delegators(delegate config.Key) []config.Key {
	return s.virtualServices.delegators.Get(delegate)
}

// rebuildIndex returns a new index of list, all VirtualServices, and leaves x unchanged. It reuses
// every row whose inputs are unchanged. find returns delegates.
func (x virtualServices) rebuildIndex(list []*config.Config, settings *Settings, find findConfig) virtualServices {
	known := make(map[*config.Config]*VirtualService, len(x.list))
	for _, v := range x.list {
		known[v.Config] = v
	}
	next := newVirtualServices()
	roots := next.delegators.Edit()
	for _, c := range list {
		row := newVirtualService(c, settings, find)
		if k := known[c]; k != nil && k.hasSameInputs(row) {
			row = k
		}
		next.list = append(next.list, row)
		row.addTo(roots, next.sources)
	}
	slices.SortFunc(next.list, byAge)
	next.delegators = roots.Done()
	next.selectors = sortedSelectors(next.sources)
	return next
}

// updateIndex returns the index after a change of objects; x is not modified. It rebuilds their
// rows and the rows of the objects that delegate to them. A row whose inputs are the same keeps its
// pointer. old and now return an object before and after the change.
func (x virtualServices) updateIndex(
	objects map[config.Key]bool,
	settings *Settings,
	old, now findConfig,
) virtualServices {
	again := maps.Clone(objects)
	for k := range objects {
		for _, root := range x.delegators.Get(k) {
			again[root] = true
		}
	}
	roots, sources := x.delegators.Edit(), maps.Clone(x.sources)
	var gone, come []*VirtualService
	for k := range again {
		if c := old(k); c != nil {
			gone = append(gone, x.rowOf(c))
			x.rowOf(c).removeFrom(roots, sources)
		}
		if c := now(k); c != nil {
			row := newVirtualService(c, settings, now)
			if n := len(gone); n > 0 && gone[n-1].hasSameInputs(row) {
				row = gone[n-1] // a delegate changed in a way that does not affect the row
			}
			come = append(come, row)
			row.addTo(roots, sources)
		}
	}
	next := virtualServices{
		list:       x.replaceRows(gone, come),
		delegators: roots.Done(),
		sources:    sources,
		selectors:  x.selectors,
	}
	if !maps.EqualFunc(next.sources, x.sources, func(_, _ selectorUse) bool { return true }) {
		next.selectors = sortedSelectors(next.sources)
	}
	return next
}

// addTo adds the delegates of a row to roots, and its sourceLabels to sources. It counts the uses
// of each selector.
func (v *VirtualService) addTo(roots *cow.Edit[config.Key, []config.Key], sources map[string]selectorUse) {
	for _, labels := range v.sources {
		text := SelectorText(labels)
		sources[text] = selectorUse{labels, sources[text].uses + 1}
	}
	for _, d := range v.delegates {
		if list := roots.Get(d.key); !slices.Contains(list, v.Config.Key) {
			roots.Set(d.key, append(slices.Clip(list), v.Config.Key))
		}
	}
}

// removeFrom removes the row's delegates from roots and its sourceLabels from sources. Labels that
// other rows use stay.
func (v *VirtualService) removeFrom(roots *cow.Edit[config.Key, []config.Key], sources map[string]selectorUse) {
	for _, labels := range v.sources {
		text := SelectorText(labels)
		if s := sources[text]; s.uses > 1 {
			sources[text] = selectorUse{s.labels, s.uses - 1}
		} else {
			delete(sources, text)
		}
	}
	for _, d := range v.delegates {
		list := slices.DeleteFunc(slices.Clone(roots.Get(d.key)), func(k config.Key) bool { return k == v.Config.Key })
		if len(list) > 0 {
			roots.Set(d.key, list)
		} else {
			roots.Delete(d.key)
		}
	}
}

// byAge orders rows by the age of their objects, oldest first.
func byAge(a, b *VirtualService) int { return config.CompareAge(a.Config, b.Config) }

// rowOf returns the row of an object, which must be indexed. It searches by creation time, name and
// namespace (config.CompareAge).
func (x virtualServices) rowOf(c *config.Config) *VirtualService {
	at, _ := slices.BinarySearchFunc(
		x.list,
		c,
		func(v *VirtualService, c *config.Config) int { return config.CompareAge(v.Config, c) },
	)
	return x.list[at]
}

// replaceRows returns a copy of x.list without the rows gone, which must be in it, and with the
// rows come, sorted oldest first. It sorts gone and come in place.
func (x virtualServices) replaceRows(gone, come []*VirtualService) []*VirtualService {
	slices.SortFunc(gone, byAge)
	slices.SortFunc(come, byAge)
	kept, rest := make([]*VirtualService, 0, len(x.list)), x.list
	for _, v := range gone {
		at, _ := slices.BinarySearchFunc(rest, v, byAge)
		kept, rest = append(kept, rest[:at]...), rest[at+1:]
	}
	kept = append(kept, rest...)
	if len(come) == 0 {
		return kept
	}
	list := make([]*VirtualService, 0, len(kept)+len(come))
	for _, v := range come {
		at, _ := slices.BinarySearchFunc(kept, v, byAge)
		list, kept = append(append(list, kept[:at]...), v), kept[at:]
	}
	return append(list, kept...)
}

// sortedSelectors returns the selectors sorted by their text.
func sortedSelectors(sources map[string]selectorUse) []map[string]string {
	var list []map[string]string
	for _, text := range slices.Sorted(maps.Keys(sources)) {
		list = append(list, sources[text].labels)
	}
	return list
}
