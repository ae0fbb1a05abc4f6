package snapshot

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// claims is what all registries say of services.
type claims struct {
	// byKey has definitions in the order in which they count.
	byKey map[mesh.ServiceKey][]*mesh.Service
	// selecting are, by namespace, the services of which some definition selects workloads.
	selecting map[string]map[mesh.ServiceKey]struct{}
}

func newClaims() claims {
	return claims{byKey: map[mesh.ServiceKey][]*mesh.Service{}, selecting: map[string]map[mesh.ServiceKey]struct{}{}}
}

func (c claims) set(k mesh.ServiceKey, list []*mesh.Service) {
	if len(list) == 0 {
		delete(c.byKey, k)
	} else {
		c.byKey[k] = list
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
