package consul

import (
	"errors"
	"maps"
	"slices"
)

// serviceState is the last known state of one service. It decides which instances exist after an
// answer of Consul.
type serviceState struct {
	instances map[string]knownInstance
	// readable is set once an answer was not filtered by ACLs. From then on, a filtered answer
	// hides instances that the token could read before.
	readable bool
}

// knownInstance is an instance and the generation of the servers that listed it last.
type knownInstance struct {
	Instance
	generation uint64
}

// answer is what Consul answered about the instances of a service.
type answer struct {
	instances []Instance
	// filtered reports whether Consul left out instances that the token may not read.
	filtered bool
	// generation is the generation of the servers that gave the answer (serverIdentity).
	generation uint64
}

// removals returns the number of known instances that apply(a) would remove.
func (s *serviceState) removals(a answer) int {
	return s.missing(a, func(k knownInstance) bool { return !s.isHeld(k, a) })
}

// countHeld returns the number of known instances that the answer does not contain and that
// apply(a) would keep.
func (s *serviceState) countHeld(a answer) int {
	return s.missing(a, func(k knownInstance) bool { return s.isHeld(k, a) })
}

// missing returns the number of known instances that the answer does not contain and for which
// matches returns true.
func (s *serviceState) missing(a answer, matches func(knownInstance) bool) int {
	listed := make(map[string]bool, len(a.instances))
	for _, i := range a.instances {
		listed[i.ID] = true
	}
	n := 0
	for id, k := range s.instances {
		if !listed[id] && matches(k) {
			n++
		}
	}
	return n
}

// isHeld reports whether an instance k that the answer does not contain may still exist and must be
// kept. That is so if the token may no longer read it, or if servers of an earlier generation,
// whose data was lost, listed it.
func (s *serviceState) isHeld(k knownInstance, a answer) bool {
	if k.generation != a.generation {
		return true
	}
	return a.filtered && (s.readable || len(a.instances) == 0)
}

// listsHeld reports whether the answer lists an instance that is known only from an earlier
// generation. Instances that are not known do not count.
func (s *serviceState) listsHeld(a answer) bool {
	return slices.ContainsFunc(a.instances, func(i Instance) bool {
		k, known := s.instances[i.ID]
		return known && k.generation != a.generation
	})
}

// isOlder reports whether the answer, with this index, is older than an instance that it does not
// contain: the index is lower than the instance's registration, although its removal would have
// raised it. That is so after a snapshot was restored.
func (s *serviceState) isOlder(a answer, index uint64) bool {
	return s.missing(a, func(k knownInstance) bool { return k.generation == a.generation && k.CreateIndex > index }) > 0
}

// apply stores the instances of an answer, also for known ones, and removes all others, except held
// ones (isHeld). It sets s.readable unless the answer was filtered.
func (s *serviceState) apply(a answer) {
	next := make(map[string]knownInstance, len(a.instances))
	for _, i := range a.instances {
		next[i.ID] = knownInstance{i, a.generation}
	}
	for id, k := range s.instances {
		if _, listed := next[id]; !listed && s.isHeld(k, a) {
			next[id] = k
		}
	}
	s.instances = next
	s.readable = s.readable || !a.filtered
}

// sorted returns the known instances, sorted by ID.
func (s *serviceState) sorted() []Instance {
	list := make([]Instance, 0, len(s.instances))
	for _, id := range slices.Sorted(maps.Keys(s.instances)) {
		list = append(list, s.instances[id].Instance)
	}
	return list
}

// serverIdentity detects servers that do not have the data of the servers before them. Their
// answers begin a new generation.
type serverIdentity struct {
	generation uint64
	// ids identify the servers, each by its node ID and the index at which it was registered. It is
	// empty if the token may not read them.
	ids map[string]bool
}

// errNoServers is the error of an answer that isImplausible.
var errNoServers = errors.New("the answer lists no servers, so its lists are not Consul's")

// isImplausible reports whether an answer lists no servers although servers were known and no ACL
// hides them. Running servers list themselves, so a front or an anonymous token without rights has
// emptied the answer, and other empty answers prove no removal either.
func (s *serverIdentity) isImplausible(x *result) bool {
	return len(s.ids) > 0 && len(x.serverIDs) == 0 && !x.meta.ResultsFilteredByACLs
}

// update records the IDs of the servers in an answer and reports whether none of them was known
// before; that begins a new generation. The first servers and ones that are replaced one at a time
// do not begin a generation. An empty list changes nothing and returns false.
func (s *serverIdentity) update(ids []string) (replaced bool) {
	if len(ids) == 0 {
		return false
	}
	next := map[string]bool{}
	replaced = len(s.ids) > 0
	for _, id := range ids {
		next[id] = true
		replaced = replaced && !s.ids[id]
	}
	s.ids = next
	if replaced {
		s.generation++
	}
	return replaced
}
