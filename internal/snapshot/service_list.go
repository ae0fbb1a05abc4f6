package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// compareServiceKeys orders services by hostname and namespace.
func compareServiceKeys(a, b mesh.ServiceKey) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace))
}

// NamespacesOf returns the namespaces that have a service with the host, sorted.
func (s *Snapshot) NamespacesOf(host mesh.Hostname) []string {
	first, _ := slices.BinarySearchFunc(s.serviceList, host, func(svc *mesh.Service, host mesh.Hostname) int {
		return cmp.Compare(svc.Host, host)
	})
	var namespaces []string
	for _, svc := range s.serviceList[first:] {
		if svc.Host != host {
			break
		}
		namespaces = append(namespaces, svc.Namespace)
	}
	return namespaces
}

// listServices updates the sorted list of all services and, for each namespace, the list of
// services with a selector, by delta.Services. Both are copied before they change.
func (e *edit) listServices() {
	changed := slices.SortedFunc(maps.Keys(e.delta.Services), compareServiceKeys)
	e.next.serviceList = replaceServices(e.next.serviceList, changed, e.services.Get)
	byNamespace := map[string][]mesh.ServiceKey{}
	for _, k := range changed {
		if ifSelecting(e.services.Get(k)) != nil || ifSelecting(e.current.services.Get(k)) != nil {
			byNamespace[k.Namespace] = append(byNamespace[k.Namespace], k)
		}
	}
	if len(byNamespace) == 0 {
		return
	}
	if e.next.selecting = maps.Clone(e.next.selecting); e.next.selecting == nil {
		e.next.selecting = map[string][]*mesh.Service{}
	}
	for ns, keys := range byNamespace {
		list := replaceServices(
			e.next.selecting[ns],
			keys,
			func(k mesh.ServiceKey) *mesh.Service { return ifSelecting(e.services.Get(k)) },
		)
		if len(list) == 0 {
			delete(e.next.selecting, ns)
		} else {
			e.next.selecting[ns] = list
		}
	}
}

// ifSelecting returns s if it selects workloads by label, and nil otherwise.
func ifSelecting(s *mesh.Service) *mesh.Service {
	if s == nil || len(s.Selector) == 0 {
		return nil
	}
	return s
}

// replaceServices returns a copy of list with the services of keys replaced by now(key), added or,
// if that is nil, removed. list and keys must be sorted by compareServiceKeys.
func replaceServices(
	list []*mesh.Service,
	keys []mesh.ServiceKey,
	now func(mesh.ServiceKey) *mesh.Service,
) []*mesh.Service {
	out := make([]*mesh.Service, 0, len(list)+len(keys))
	for _, k := range keys {
		i, found := slices.BinarySearchFunc(
			list,
			k,
			func(s *mesh.Service, k mesh.ServiceKey) int { return compareServiceKeys(s.ServiceKey, k) },
		)
		out = append(out, list[:i]...)
		if s := now(k); s != nil {
			out = append(out, s)
		}
		if list = list[i:]; found {
			list = list[1:]
		}
	}
	return append(out, list...)
}
