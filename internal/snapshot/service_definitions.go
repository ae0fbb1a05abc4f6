package snapshot

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// serviceDefinitions holds the definitions of services by all registries. Several registries or
// objects may define the same service.
type serviceDefinitions struct {
	// byKey has the definitions of a service in order of precedence.
	byKey map[mesh.ServiceKey][]*mesh.Service
	// podSelecting and entrySelecting have the services with at least one definition that selects
	// pods, or WorkloadEntries. They are kept apart for the same reason as in workloads.
	podSelecting, entrySelecting servicesByNamespace
	// external has the services with at least one definition that has addresses outside its
	// cluster.
	external map[mesh.ServiceKey]struct{}
}

// newServiceDefinitions returns serviceDefinitions without any definition.
func newServiceDefinitions() serviceDefinitions {
	return serviceDefinitions{
		byKey:          map[mesh.ServiceKey][]*mesh.Service{},
		podSelecting:   servicesByNamespace{},
		entrySelecting: servicesByNamespace{},
		external:       map[mesh.ServiceKey]struct{}{},
	}
}

// servicesByNamespace is a set of services, by namespace.
type servicesByNamespace map[string]map[mesh.ServiceKey]struct{}

// set adds a service to the set if contained is true, and removes it otherwise.
func (s servicesByNamespace) set(k mesh.ServiceKey, contained bool) {
	services := s[k.Namespace]
	switch {
	case !contained:
		delete(services, k)
	case services == nil:
		s[k.Namespace] = map[mesh.ServiceKey]struct{}{k: {}}
	default:
		services[k] = struct{}{}
	}
}

// setDefinitions replaces the definitions of a service and updates the indexes of external and
// selecting services. An empty list removes the service.
func (c serviceDefinitions) setDefinitions(k mesh.ServiceKey, list []*mesh.Service) {
	if len(list) == 0 {
		delete(c.byKey, k)
	} else {
		c.byKey[k] = list
	}
	if slices.ContainsFunc(list, func(s *mesh.Service) bool { return len(s.External) > 0 }) {
		c.external[k] = struct{}{}
	} else {
		delete(c.external, k)
	}
	c.podSelecting.set(k, slices.ContainsFunc(list, func(s *mesh.Service) bool {
		return s.Selector != nil && s.SelectsPods
	}))
	c.entrySelecting.set(k, slices.ContainsFunc(list, func(s *mesh.Service) bool {
		return s.Selector != nil && s.SelectsWorkloadEntries
	}))
}

// selectingServices returns the services with a definition that selects the workload, in no
// particular order. For a pod it searches only services with definitions that select pods,
// otherwise only services with definitions that select WorkloadEntries.
func (c serviceDefinitions) selectingServices(w *mesh.Workload) []mesh.ServiceKey {
	selecting := c.entrySelecting
	if w.Provider == mesh.Kubernetes {
		selecting = c.podSelecting
	}
	var keys []mesh.ServiceKey
	for k := range selecting[w.Namespace] {
		if slices.ContainsFunc(c.byKey[k], func(s *mesh.Service) bool { return selectsWorkload(s, w) }) {
			keys = append(keys, k)
		}
	}
	return keys
}

// externalDefinitions returns all definitions that have addresses outside their cluster. They are
// in no particular order.
func (c serviceDefinitions) externalDefinitions() []*mesh.Service {
	var list []*mesh.Service
	for k := range c.external {
		for _, s := range c.byKey[k] {
			if len(s.External) > 0 {
				list = append(list, s)
			}
		}
	}
	return list
}
