package zookeeper

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// applyChanged applies and reports the changed services that were read completely, and records the
// roots. Before Synced it does nothing until all nodes were read, because any of them may show that
// the servers lost their data. Then it reports these and all known services, and Synced.
func (s *session) applyChanged() {
	if !s.synced {
		if len(s.outstanding) > 0 {
			return
		}
		s.beginData()
	}
	for _, path := range slices.Sorted(maps.Keys(s.changed)) {
		if s.isComplete(path) {
			delete(s.changed, path)
			s.apply(path)
			s.report(path)
		}
	}
	for _, root := range []string{s.settings.DubboRoot, s.settings.ServicesRoot} {
		if n, read := s.nodes[root]; read && root != "" {
			s.tree.setRoot(n)
		}
	}
	if !s.synced {
		s.synced = true
		s.sink.SyncedGeneration(s.process)
	}
}

// beginData compares the nodes with the state of the previous session, and begins a new generation
// if the servers lost data. It marks all known services as changed. A new generation is logged.
func (s *session) beginData() {
	for path := range s.tree.services {
		s.changed[path] = true
	}
	if s.tree.isReset(s.nodes) {
		s.tree.generation++
		s.logger.Warn("ZooKeeper servers lost their data; keeping all known instances until they are registered again",
			"servers", s.settings.Servers)
	}
}

// isComplete reports whether the contents of all instances of a service were read. It returns true
// if its instances have no contents.
func (s *session) isComplete(path string) bool {
	if !s.hasContents(path) {
		return true
	}
	for _, name := range s.nodes[path].children {
		if _, read := s.nodes[path+"/"+name]; !read {
			return false
		}
	}
	return true
}

// apply stores the instances of a service in the tree, and removes unlisted ones that are not held
// (removeMissing). It removes the service if none is left and its node does not exist. If the
// service could not be read, it stores the error only, and the instances stay.
func (s *session) apply(path string) {
	n := s.nodes[path]
	service := s.tree.service(path)
	if n.err != nil {
		service.err = errText(path, n.err)
		return
	}
	service.setNode(n)
	var listed []string
	for _, name := range n.children {
		r, err, ok := s.registration(path, name)
		if !ok {
			continue
		}
		listed = append(listed, name)
		service.set(name, r, s.tree.generation, err)
	}
	service.removeMissing(listed, s.tree.generation)
	if len(service.instances) == 0 && !n.exists {
		delete(s.tree.services, path)
	}
}

// registration returns the registration of a child of a service's node, or its error. ok is false
// if the child is no instance: it was deleted, or is a folder. A Dubbo provider is its name alone,
// without content.
func (s *session) registration(path, name string) (r registration, err error, ok bool) {
	if !s.hasContents(path) {
		r, err = parseProvider(name)
		return r, err, true
	}
	n := s.nodes[path+"/"+name]
	switch {
	case n.err != nil:
		return r, n.err, true
	case !n.exists, len(n.content) == 0 && n.stat.EphemeralOwner == 0: // deleted since, or a folder
		return r, nil, false
	}
	r, err = parseInstance(path[strings.LastIndex(path, "/")+1:], n.content)
	return r, err, true
}

// report reports the services of a node, each with the node's problem if there is one, and deletes
// the services that the node no longer has. The problem of a node without services is reported
// under the node's path.
func (s *session) report(path string) {
	state := s.tree.services[path]
	if state == nil {
		state = &service{}
	}
	services, invalid := s.settings.adapterServices(state, s.tree.generation)
	problem := errors.Join(state.err, s.heldProblem(state), invalid)
	keys := map[adapter.ServiceKey]bool{}
	for key, service := range services {
		keys[key] = false
		s.sink.Set(service)
		if problem != nil {
			s.sink.Report(key, problem)
		}
	}
	if problem != nil && len(services) == 0 {
		key := adapter.ServiceKey{Namespace: s.settings.Namespace, Name: path}
		keys[key] = true
		s.sink.Report(key, problem)
	}
	for key, problemOnly := range s.reported[path] {
		if _, kept := keys[key]; kept {
			continue
		}
		if problemOnly {
			s.sink.Report(key, nil)
		} else {
			s.sink.Delete(key)
		}
	}
	s.reported[path] = keys
	if len(keys) == 0 {
		delete(s.reported, path)
	}
}

// heldProblem returns an error with the number of held instances of a service, or nil if there are
// none.
func (s *session) heldProblem(state *service) error {
	if n := state.held(s.tree.generation); n > 0 {
		return fmt.Errorf("the ZooKeeper servers lost their data and do not list %d of the instances; they stay in use until they are registered again", n)
	}
	return nil
}
