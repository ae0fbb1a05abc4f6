package snapshot

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// virtualServices is the index over all VirtualServices.
type virtualServices struct {
	list []*VirtualService // oldest first
	// roots are the objects that leave requests to a delegate, by the delegate's key, which need not be there.
	roots   *cow.Map[config.Key, []config.Key]
	sources map[string]source
	// selectors are the labels of sources, in the order of their texts.
	selectors []map[string]string
}

func newVirtualServices() virtualServices {
	return virtualServices{roots: cow.New[config.Key, []config.Key](), sources: map[string]source{}}
}

// source is a label selector by which routes look at where a request comes from, and how many matches have it.
type source struct {
	labels map[string]string
	uses   int
}

// VirtualServices gives all VirtualServices, oldest first, delegates too: those have no Hosts. The list must not be changed.
func (s *Snapshot) VirtualServices() []*VirtualService { return s.virtualServices.list }

// SourceSelectors gives the distinct source label selectors of all VirtualServices, in a fixed order.
// What of a proxy's labels shapes its routes is which of them match.
func (s *Snapshot) SourceSelectors() []map[string]string { return s.virtualServices.selectors }

// Delegators gives the VirtualServices that leave requests to a delegate, whether that is there or not. The list must not be
// changed.
func (s *Snapshot) Delegators(delegate config.Key) []config.Key {
	return s.virtualServices.roots.Get(delegate)
}

// rebuilt makes the index for the objects given, keeping every row that would come out the same.
func (x virtualServices) rebuilt(list []*config.Config, settings *Settings, find findConfig) virtualServices {
	known := make(map[*config.Config]*VirtualService, len(x.list))
	for _, v := range x.list {
		known[v.Config] = v
	}
	next := newVirtualServices()
	roots := next.roots.Edit()
	for _, c := range list {
		row := newVirtualService(c, settings, find)
		if k := known[c]; k != nil && k.same(row) {
			row = k
		}
		next.list = append(next.list, row)
		row.note(roots, next.sources)
	}
	slices.SortFunc(next.list, byAge)
	next.roots = roots.Done()
	next.selectors = sorted(next.sources)
	return next
}

// changed makes the index after a change of the objects: their rows and those of the ones that they are delegates of are
// made anew, all others stay. A few are put in place, many are sorted afresh.
func (x virtualServices) changed(objects map[config.Key]bool, settings *Settings, old, now findConfig) virtualServices {
	again := maps.Clone(objects)
	for k := range objects {
		for _, root := range x.roots.Get(k) {
			again[root] = true
		}
	}
	roots, sources := x.roots.Edit(), maps.Clone(x.sources)
	var gone, come []*VirtualService
	for k := range again {
		if c := old(k); c != nil {
			gone = append(gone, x.find(c))
			x.find(c).forget(roots, sources)
		}
		if c := now(k); c != nil {
			row := newVirtualService(c, settings, now)
			if n := len(gone); n > 0 && gone[n-1].same(row) {
				row = gone[n-1] // a delegate changed in what does not matter
			}
			come = append(come, row)
			row.note(roots, sources)
		}
	}
	next := virtualServices{list: x.replaced(gone, come), roots: roots.Done(), sources: sources, selectors: x.selectors}
	if !maps.EqualFunc(next.sources, x.sources, func(_, _ source) bool { return true }) {
		next.selectors = sorted(next.sources)
	}
	return next
}

// note takes up what a row is asked about, forget takes it out again.
func (v *VirtualService) note(roots *cow.Edit[config.Key, []config.Key], sources map[string]source) {
	for _, labels := range v.sources {
		text := SelectorText(labels)
		sources[text] = source{labels, sources[text].uses + 1}
	}
	for _, d := range v.delegates {
		if list := roots.Get(d.key); !slices.Contains(list, v.Config.Key) {
			roots.Set(d.key, append(slices.Clip(list), v.Config.Key))
		}
	}
}

func (v *VirtualService) forget(roots *cow.Edit[config.Key, []config.Key], sources map[string]source) {
	for _, labels := range v.sources {
		text := SelectorText(labels)
		if s := sources[text]; s.uses > 1 {
			sources[text] = source{s.labels, s.uses - 1}
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

func byAge(a, b *VirtualService) int { return config.Older(a.Config, b.Config) }

// find gives the row of an object that is there.
func (x virtualServices) find(c *config.Config) *VirtualService {
	at, _ := slices.BinarySearchFunc(x.list, c, func(v *VirtualService, c *config.Config) int { return config.Older(v.Config, c) })
	return x.list[at]
}

// replaced gives the list without some rows and with others.
func (x virtualServices) replaced(gone, come []*VirtualService) []*VirtualService {
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

// sorted gives the selectors in the order of their texts.
func sorted(sources map[string]source) []map[string]string {
	var list []map[string]string
	for _, text := range slices.Sorted(maps.Keys(sources)) {
		list = append(list, sources[text].labels)
	}
	return list
}
