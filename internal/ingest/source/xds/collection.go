package xds

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// collection holds the objects of one resource type. It persists across connections.
type collection struct {
	kind    api.KindInfo
	typeURL string
	origin  string // the Origin of its objects: the source's address
	// recovery confines a panic while an object is decoded to that object. If nil, the panic
	// propagates.
	recovery *recovery.Recorder

	held map[string]*held // by name, "namespace/name"
	// order has the objects of the last full state in their order. An object at the same position
	// is recognized by its bytes without parsing its name.
	order []*held
	// answered is set after the server has sent a response for the type.
	answered bool
	// faults are the Problems of resources without a readable name, as sent last.
	faults []config.Problem
	// round is the number of full states received.
	round uint64
}

// held is one object.
type held struct {
	hash    uint64         // of its encoded form as sent last
	sent    uint64         // of the complete resource in the last full state
	place   int            // its position in the order
	version string         // the server's version (delta)
	object  *config.Config // the last valid version; nil if there was none
	flawed  bool           // Problems of it were sent
	seen    uint64         // the last round that contained it
}

// newCollection returns a collection without objects of the kind. Its objects have this Origin.
func newCollection(kind api.KindInfo, origin string) *collection {
	return &collection{kind: kind, typeURL: typeURL(kind), origin: origin, held: map[string]*held{}}
}

// edit applies one response and collects the events.
type edit struct {
	*collection
	source string
	batch  mesh.Batch
	faulty []config.Problem // of resources without a readable name
	kept   int              // objects found in a full state
	lost   int              // resources without a readable name
}

// newEdit returns an edit of c without events; its events have this source.
func (c *collection) newEdit(source string) *edit { return &edit{collection: c, source: source} }

// reportUnnamed adds a Problem about the resource at position n, whose name cannot be read, and
// counts it as lost.
func (e *edit) reportUnnamed(n int, format string, args ...any) {
	e.lost++
	e.addFault("resource %d of %s cannot be read: "+format, append([]any{n, e.typeURL}, args...)...)
}

// addFault adds an Error about the response.
func (e *edit) addFault(format string, args ...any) {
	e.faulty = append(
		e.faulty,
		config.Problem{Code: code.UnreadableSource, Origin: e.origin, Severity: config.Error,
			Reason: fmt.Sprintf(format, args...)},
	)
}

// objectName returns the name and the encoded form of the object in an Any, which is at position n
// of the response, from 1. Both share the memory of any. If the Any cannot be read or has another
// type, ok is false and it adds a Problem.
func (e *edit) objectName(n int, any []byte) (name, encoded []byte, ok bool) {
	url, encoded, err := readAny(any)
	if err == nil && string(url) != anyPrefix+wrapperType {
		e.reportUnnamed(n, "it is a %q, not a %s", url, wrapperType)
		return nil, nil, false
	}
	if err == nil {
		name, err = readName(encoded)
	}
	if err != nil {
		e.reportUnnamed(n, "%v", err)
		return nil, nil, false
	}
	return name, encoded, true
}

// upsertObject applies the object at position n and returns its entry. It decodes the object only
// if its bytes changed. If the name is not namespace/name, it adds a Problem and returns nil.
func (e *edit) upsertObject(n int, name, encoded []byte) *held {
	hash := xxhash.Sum64(encoded)
	h := e.held[string(name)]
	switch {
	case h != nil && h.hash == hash:
		return h
	case h == nil:
		h = new(held)
	}
	key, ok := e.key(string(name))
	if !ok {
		e.addFault("resource %d of %s is not used: its name is %q, want namespace/name", n, e.typeURL, name)
		return nil
	}
	e.held[string(name)] = h
	h.hash = hash
	e.replaceObject(h, key, encoded)
	return h
}

// key returns the key of the object with this name. ok is false if the name is not namespace/name.
func (e *edit) key(name string) (key config.Key, ok bool) {
	namespace, base, ok := splitName(name)
	return config.Key{Kind: e.kind.Kind, Namespace: namespace, Name: base}, ok
}

// decodeGuarded returns the decoded object, nil if it is invalid, and its Problems. After a panic
// it returns a Problem and no object, so that the last good version stays in use. Without a
// Recorder the panic propagates.
func (e *edit) decodeGuarded(key config.Key, encoded []byte) (object *config.Config, problems []config.Problem) {
	err := e.recovery.Call("source", func() error {
		object, problems = readObject(e.kind, key, encoded, e.origin)
		return nil
	}, "object", key.String(), "source", e.origin)
	if err == nil {
		return object, problems
	}
	return nil, []config.Problem{{
		Code: code.UnreadableSource,
		Key:  key, Origin: e.origin, Severity: config.Error,
		Reason: "internal error, please report it with the control plane's log: " + err.Error() +
			". This version is not used",
	}}
}

// replaceObject replaces an object with its new version, if that is valid and differs, and emits
// it. Otherwise the last good version stays in use. It emits the Problems of the new version, and
// clears earlier ones.
func (e *edit) replaceObject(h *held, key config.Key, encoded []byte) {
	object, problems := e.decodeGuarded(key, encoded)
	switch {
	case object == nil && h.object != nil:
		problems = append(problems, config.Problem{
			Code: code.UnreadableSource,
			Key:  key, Origin: e.origin, Severity: config.Warning,
			Reason: "has errors now; it stays in use as it was before",
		})
	case object != nil && (h.object == nil || h.object.Hash != object.Hash):
		h.object = object
		e.batch = append(e.batch, mesh.Event{Op: mesh.Upsert, Source: e.source, Config: object})
	}
	if len(problems) > 0 || h.flawed {
		e.setProblems(key, problems)
		h.flawed = len(problems) > 0
	}
}

// removeObject deletes an object and its Problems. It does nothing for an unknown name. The
// deletion is emitted only if a valid version was used.
func (e *edit) removeObject(name string) {
	h := e.held[name]
	if h == nil {
		return
	}
	delete(e.held, name)
	key, _ := e.key(name) // valid when the object was added
	if h.object != nil {
		e.batch = append(
			e.batch,
			mesh.Event{Op: mesh.Delete, Source: e.source, Config: &config.Config{Meta: config.Meta{Key: key}}},
		)
	}
	if h.flawed {
		e.setProblems(key, nil)
	}
}

// setProblems emits an event that replaces the Problems of an object by list; nil clears them.
func (e *edit) setProblems(key config.Key, list []config.Problem) {
	e.batch = append(e.batch, mesh.Event{Source: e.source, Problems: &mesh.Problems{Scope: key.String(), List: list}})
}

// applyFullState applies the complete set of objects and emits changed Problems of the response.
// Missing objects are deleted. If the name of any resource cannot be read, it may be one of them:
// then they stay, with a Problem. Of two objects with one name the first is used, and the other is
// a Problem.
func (e *edit) applyFullState(r response) {
	e.round++
	n, next := 0, 0 // the expected position of the next object in the old order
	order := make([]*held, 0, len(e.order)+1)
	r.forEachResource(func(any []byte) {
		n++
		sent := xxhash.Sum64(any)
		if next < len(e.order) && e.order[next].sent == sent && e.order[next].seen != e.round {
			h := e.order[next]
			h.seen, h.place = e.round, len(order)
			order = append(order, h)
			e.kept++
			next++
			return
		}
		name, encoded, ok := e.objectName(n, any)
		if !ok {
			return
		}
		if h := e.held[string(name)]; h != nil && h.seen == e.round {
			e.addFault("resource %d of %s is %q again, of which only the first is used", n, e.typeURL, name)
			return
		}
		h := e.upsertObject(n, name, encoded)
		if h == nil {
			return
		}
		if h.seen != 0 && h.place < len(e.order) && e.order[h.place] == h {
			next = h.place + 1
		}
		h.seen, h.sent, h.place = e.round, sent, len(order)
		order = append(order, h)
		e.kept++
	})
	e.order = order
	switch missing := len(e.held) - e.kept; {
	case missing == 0:
	case e.lost > 0:
		e.addFault(
			"%d objects of %s are missing and stay in use, for what cannot be read may be one of them",
			missing,
			e.typeURL,
		)
	default:
		for _, name := range slices.Sorted(maps.Keys(e.held)) {
			if e.held[name].seen != e.round {
				e.removeObject(name)
			}
		}
	}
	e.emitProblems()
}

// applyChanges applies the new and changed objects of a delta response, then its deletions, sorted
// by name. It emits changed Problems of the response. It clears e.order, which is valid for full
// states only.
func (e *edit) applyChanges(r response) {
	e.order = nil // valid for full states only
	n := 0
	r.forEachResource(func(resource []byte) {
		n++
		e.applyChange(n, resource)
	})
	for _, name := range slices.Sorted(slices.Values(r.removed)) {
		e.removeObject(name)
	}
	e.emitProblems()
}

// applyChange applies one Resource of a delta response; n is its position, for messages. A resource
// without a body is a heartbeat and ignored. A resource that cannot be read, or has two names, is
// reported and ignored. The version of the resource is stored for reconnects.
func (e *edit) applyChange(n int, resource []byte) {
	var version, outer, body []byte
	err := forEachField(resource, func(number protowire.Number, v []byte) error {
		switch number {
		case deltaVersion:
			version = v
		case deltaName:
			outer = v
		case deltaBody:
			body = v
		}
		return nil
	})
	switch {
	case err != nil:
		e.reportUnnamed(n, "%v", err)
		return
	case body == nil:
		return // a heartbeat (xDS protocol, "Resource TTL")
	}
	name, encoded, ok := e.objectName(n, body)
	switch {
	case !ok:
	case len(outer) > 0 && string(outer) != string(name):
		// The server would later delete one name and update the other.
		e.reportUnnamed(n, "it is sent as %q and says to be %q", outer, name)
	default:
		if h := e.upsertObject(n, name, encoded); h != nil {
			h.version = string(version)
		}
	}
}

// emitProblems marks the type as answered and emits the Problems of the response, if they changed.
// After a full state they are complete. After changes they concern only the last response, because
// the deletion of a resource without a readable name cannot be recognized.
func (e *edit) emitProblems() {
	e.answered = true
	if !slices.Equal(e.faulty, e.faults) {
		e.faults = e.faulty
		e.batch = append(
			e.batch,
			mesh.Event{Source: e.source, Problems: &mesh.Problems{Scope: e.typeURL, List: e.faulty}},
		)
	}
}

// initialVersions returns the version of each held object by name, for initial_resource_versions.
func (c *collection) initialVersions() map[string]string {
	m := make(map[string]string, len(c.held))
	for name, h := range c.held {
		m[name] = h.version
	}
	return m
}
