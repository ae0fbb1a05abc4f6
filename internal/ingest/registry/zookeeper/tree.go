package zookeeper

import (
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
)

// tree is the last known state of all services. It outlives sessions, and decides which instances
// exist.
//
// Within a session a node that is missing was deleted, because servers without the data of a
// session do not have the session. A new session may see other data: of servers that lost theirs or
// were restored from an older snapshot. Such data begin a new generation. An instance of an earlier
// generation is held: it stays in use until the new data list it.
type tree struct {
	generation uint64
	roots      map[string]identity // by path
	services   map[string]*service // by path
}

// identity distinguishes a node from others that had the same path.
type identity struct{ created, time int64 }

// service is the last known state of a service.
type service struct {
	// created and changed are the transactions that created the node and changed its children last.
	// Both are 0 if it does not exist.
	created, changed int64
	instances        map[string]*instance // by name of the node
	err              error                // why it cannot be read now
}

// instance is a registration and the generation of the data that listed it last.
type instance struct {
	registration
	generation uint64
	err        error // what is invalid about its content now
}

// newTree returns a tree without services.
func newTree() *tree { return &tree{roots: map[string]identity{}, services: map[string]*service{}} }

// isReset reports whether nodes that a new session has read show that the servers lost data that
// this tree was read from. Then a known root does not exist or has another identity, or a service's
// last transactions are older than the known ones. Nodes that were not or cannot be read, and
// missing services, show nothing.
func (t *tree) isReset(read map[string]node) bool {
	for path, known := range t.roots {
		n, isRead := read[path]
		if isRead && n.err == nil && (!n.exists || identityOf(&n.stat) != known) {
			return true
		}
	}
	for path, known := range t.services {
		n, isRead := read[path]
		if !isRead || n.err != nil || !n.exists || known.created == 0 {
			continue
		}
		if n.stat.Pzxid < known.changed || n.stat.Czxid < known.created {
			return true
		}
	}
	return false
}

// identityOf returns the transaction and the time at which a node was created.
func identityOf(s *zk.Stat) identity { return identity{s.Czxid, s.Ctime} }

// setRoot stores the identity of a root. A missing root keeps its last identity, so that the next
// session compares with it.
func (t *tree) setRoot(n node) {
	if n.exists {
		t.roots[n.path] = identityOf(&n.stat)
	}
}

// service returns the service at a path, and creates it if it is unknown.
func (t *tree) service(path string) *service {
	s := t.services[path]
	if s == nil {
		s = &service{instances: map[string]*instance{}}
		t.services[path] = s
	}
	return s
}

// setNode stores the transactions that created and last changed a service's node, 0 if it does not
// exist, and clears the error.
func (s *service) setNode(n node) {
	s.err = nil
	s.created, s.changed = 0, 0
	if n.exists {
		s.created, s.changed = n.stat.Czxid, n.stat.Pzxid
	}
}

// set stores an instance that the current data list, with the error of its registration. If the
// registration has no endpoints, the instance keeps its previous ones.
func (s *service) set(name string, r registration, generation uint64, err error) {
	if known := s.instances[name]; known != nil && len(r.endpoints) == 0 {
		r = known.registration
	}
	s.instances[name] = &instance{registration: r, generation: generation, err: err}
}

// removeMissing removes the instances that the current data do not list, unless they are held. A
// held instance is removed if a listed one has its address and port: it was registered again by
// another name.
func (s *service) removeMissing(listed []string, generation uint64) {
	isListed := make(map[string]bool, len(listed))
	addresses := map[string]bool{}
	for _, name := range listed {
		isListed[name] = true
		if i := s.instances[name]; i != nil && i.generation == generation {
			for _, e := range i.endpoints {
				addresses[e.id()] = true
			}
		}
	}
	maps.DeleteFunc(s.instances, func(name string, i *instance) bool {
		if isListed[name] {
			return false
		}
		return i.generation == generation ||
			slices.ContainsFunc(i.endpoints, func(e endpoint) bool { return addresses[e.id()] })
	})
}

// held returns the number of instances of earlier generations.
func (s *service) held(generation uint64) int {
	n := 0
	for _, i := range s.instances {
		if i.generation != generation {
			n++
		}
	}
	return n
}
