package snapshot

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// claims is what all registries say of services.
type claims struct {
	// byKey has definitions in the order in which they count.
	byKey map[mesh.ServiceKey][]*mesh.Service
	// selecting are, by namespace, the services of which some definition selects workloads.
	selecting map[string]map[mesh.ServiceKey]struct{}
	// external are the services of which some definition has addresses outside its cluster.
	external map[mesh.ServiceKey]struct{}
}

func newClaims() claims {
	return claims{byKey: map[mesh.ServiceKey][]*mesh.Service{}, selecting: map[string]map[mesh.ServiceKey]struct{}{}, external: map[mesh.ServiceKey]struct{}{}}
}

func (c claims) set(k mesh.ServiceKey, list []*mesh.Service) {
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
	selecting := c.selecting[k.Namespace]
	if !slices.ContainsFunc(list, func(s *mesh.Service) bool { return s.Selector != nil }) {
		delete(selecting, k)
		return
	}
	if selecting == nil {
		selecting = map[mesh.ServiceKey]struct{}{}
		c.selecting[k.Namespace] = selecting
	}
	selecting[k] = struct{}{}
}

// choosing gives the services of which some definition selects the workload.
func (c claims) choosing(w *mesh.Workload) []mesh.ServiceKey {
	var keys []mesh.ServiceKey
	for k := range c.selecting[w.Namespace] {
		if slices.ContainsFunc(c.byKey[k], func(s *mesh.Service) bool { return selects(s, w) }) {
			keys = append(keys, k)
		}
	}
	return keys
}

// outside gives the definitions that have addresses outside their cluster.
func (c claims) outside() []*mesh.Service {
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
