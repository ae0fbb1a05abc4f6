package fleet

import (
	"fmt"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// Difference returns the resources of two proxies that differ in content. When idle, a proxy that
// has followed all changes must have the resources of a newly connected proxy of the same node.
func (f *Fleet) Difference(a, b int) []string {
	const most = 10
	x, y := f.proxies[a], f.proxies[b]
	x.state.Lock()
	defer x.state.Unlock()
	y.state.Lock()
	defer y.state.Unlock()
	f.library.mu.RLock()
	defer f.library.mu.RUnlock()
	var list []string
	for t := range wire.NumTypes {
		for id := range max(len(x.held[t]), len(y.held[t])) {
			p, q := f.library.contentOf(x.held[t], id), f.library.contentOf(y.held[t], id)
			if p != q && len(list) < most {
				list = append(list, fmt.Sprintf("%v %s: %s and %s", t, f.library.names[id], p, q))
			}
		}
	}
	return list
}

// contentOf returns the content of a proxy's resource by name. l.mu is held.
func (l *library) contentOf(held []int32, id int) string {
	if id >= len(held) || held[id] <= 0 {
		return "nothing"
	}
	return fmt.Sprintf("%016x", l.list[held[id]].sum)
}

// CopyNode assigns the node of proxy a to proxy b, which must be off.
func (f *Fleet) CopyNode(a, b int) {
	x, y := f.proxies[a], f.proxies[b]
	x.state.Lock()
	node := x.node
	x.state.Unlock()
	y.state.Lock()
	y.node = node
	y.state.Unlock()
}
