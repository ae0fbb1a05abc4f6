package xds

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// collection is what is held of one resource type. It outlives connections.
type collection struct {
	kind    api.KindInfo
	typeURL string
	origin  string // of its objects: the source's address
	// recovery confines a panic while an object is decoded to that object; nil lets it pass.
	recovery *recovery.Recorder

	held map[string]*held // by name: "namespace/name"
	// order is the objects of the last full state as they came. What comes at the same place again is known by its bytes.
	order []*held
	// answered says that the server has said at least once what there is.
	answered bool
	// faults are Problems of resources that are not known by name, as they were last sent.
	faults []config.Problem
	// round counts the full states that were taken in.
	round uint64
}

// held is one object.
type held struct {
	hash    uint64         // of its encoded form as the server last sent it
	sent    uint64         // hash of all that the last full state had of it
	place   int            // in the order
	version string         // that the server gave it (delta)
	object  *config.Config // as it was last good; nil if it never was
	flawed  bool           // Problems of it were sent
	seen    uint64         // the last round that it was in
}

func newCollection(kind api.KindInfo, origin string) *collection {
	return &collection{kind: kind, typeURL: typeURL(kind), origin: origin, held: map[string]*held{}}
}

// edit is the taking in of one response. It gathers events.
type edit struct {
	*collection
	source string
	batch  mesh.Batch
	faulty []config.Problem // of resources that are not known by name
	kept   int              // objects found in a full state
	lost   int              // resources that are not known by name
}

func (c *collection) edit(source string) *edit { return &edit{collection: c, source: source} }

// fault notes that a resource cannot even be told by name.
func (e *edit) fault(n int, format string, args ...any) {
	e.lost++
	e.addFault("resource %d of %s cannot be read: "+format, append([]any{n, e.typeURL}, args...)...)
}

func (e *edit) addFault(format string, args ...any) {
	e.faulty = append(e.faulty, config.Problem{Origin: e.origin, Severity: config.Error, Reason: fmt.Sprintf(format, args...)})
}

// name finds out which object an Any holds, and gives its encoded form. n is its place in the response, from 1.
func (e *edit) name(n int, any []byte) (name, encoded []byte, ok bool) {
	url, encoded, err := readAny(any)
	if err == nil && string(url) != anyPrefix+wrapperType {
		e.fault(n, "it is a %q, not a %s", url, wrapperType)
		return nil, nil, false
	}
	if err == nil {
		name, err = readName(encoded)
	}
	if err != nil {
		e.fault(n, "%v", err)
		return nil, nil, false
	}
	return name, encoded, true
}

// upsert takes an object in. One whose bytes are held already costs no more than to find that out. It gives nil if the
// name is none of an object.
func (e *edit) upsert(n int, name, encoded []byte) *held {
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
	e.decoded(h, key, encoded)
	return h
}

func (e *edit) key(name string) (key config.Key, ok bool) {
	namespace, base, ok := splitName(name)
	return config.Key{Kind: e.kind.Kind, Namespace: namespace, Name: base}, ok
}

// read is readObject, but for a panic: then the object cannot be used, and its last good version stays.
func (e *edit) read(key config.Key, encoded []byte) (object *config.Config, problems []config.Problem) {
	err := e.recovery.Call("source", func() error {
		object, problems = readObject(e.kind, key, encoded, e.origin)
		return nil
	}, "object", key.String(), "source", e.origin)
	if err == nil {
		return object, problems
	}
	return nil, []config.Problem{{
		Key: key, Origin: e.origin, Severity: config.Error,
		Reason: "internal error, please report it with the control plane's log: " + err.Error() + ". This version is not used",
	}}
}

// decoded puts the new form of an object in the place of the old, if it is good.
func (e *edit) decoded(h *held, key config.Key, encoded []byte) {
	object, problems := e.read(key, encoded)
	switch {
	case object == nil && h.object != nil:
		problems = append(problems, config.Problem{
			Key: key, Origin: e.origin, Severity: config.Warning, Reason: "has errors now; it stays in use as it was before",
		})
	case object != nil && (h.object == nil || h.object.Hash != object.Hash):
		h.object = object
		e.batch = append(e.batch, mesh.Event{Op: mesh.Upsert, Source: e.source, Config: object})
	}
	if len(problems) > 0 || h.flawed {
		e.problems(key, problems)
		h.flawed = len(problems) > 0
	}
}

// remove takes an object away.
func (e *edit) remove(name string) {
	h := e.held[name]
	if h == nil {
		return
	}
	delete(e.held, name)
	key, _ := e.key(name) // as it was when the object came
	if h.object != nil {
		e.batch = append(e.batch, mesh.Event{Op: mesh.Delete, Source: e.source, Config: &config.Config{Meta: config.Meta{Key: key}}})
	}
	if h.flawed {
		e.problems(key, nil)
	}
}

func (e *edit) problems(key config.Key, list []config.Problem) {
	e.batch = append(e.batch, mesh.Event{Source: e.source, Problems: &mesh.Problems{Scope: key.String(), List: list}})
}

// fullState takes in all objects that there are. What is missing is gone, unless there was something that cannot be told by
// name: it may be any of the missing.
func (e *edit) fullState(r response) {
	e.round++
	n, next := 0, 0 // the place in the old order where the next one would be if nothing came or went
	order := make([]*held, 0, len(e.order)+1)
	r.each(func(any []byte) {
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
		name, encoded, ok := e.name(n, any)
		if !ok {
			return
		}
		if h := e.held[string(name)]; h != nil && h.seen == e.round {
			e.addFault("resource %d of %s is %q again, of which only the first is used", n, e.typeURL, name)
			return
		}
		h := e.upsert(n, name, encoded)
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
		e.addFault("%d objects of %s are missing and stay in use, for what cannot be read may be one of them", missing, e.typeURL)
	default:
		for _, name := range slices.Sorted(maps.Keys(e.held)) {
			if e.held[name].seen != e.round {
				e.remove(name)
			}
		}
	}
	e.finish()
}

// changes takes in what is new, changed and gone.
func (e *edit) changes(r response) {
	e.order = nil // it is about full states
	n := 0
	r.each(func(resource []byte) {
		n++
		e.change(n, resource)
	})
	for _, name := range slices.Sorted(slices.Values(r.removed)) {
		e.remove(name)
	}
	e.finish()
}

// change takes in a Resource of a delta response.
func (e *edit) change(n int, resource []byte) {
	var version, outer, body []byte
	err := fields(resource, func(number protowire.Number, v []byte) error {
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
		e.fault(n, "%v", err)
		return
	case body == nil:
		return // a heartbeat, which only says that the resource is still there (xDS protocol, "Resource TTL")
	}
	name, encoded, ok := e.name(n, body)
	switch {
	case !ok:
	case len(outer) > 0 && string(outer) != string(name):
		// Its removal would come under the one name, its next version under the other.
		e.fault(n, "it is sent as %q and says to be %q", outer, name)
	default:
		if h := e.upsert(n, name, encoded); h != nil {
			h.version = string(version)
		}
	}
}

// finish adds the Problems of resources that are not known by name. In a full state they are all there are; of changes they
// are those of the last response, for nobody says that such a resource is gone.
func (e *edit) finish() {
	e.answered = true
	if !slices.Equal(e.faulty, e.faults) {
		e.faults = e.faulty
		e.batch = append(e.batch, mesh.Event{Source: e.source, Problems: &mesh.Problems{Scope: e.typeURL, List: e.faulty}})
	}
}

// versions gives what is held in the form of initial_resource_versions.
func (c *collection) versions() map[string]string {
	m := make(map[string]string, len(c.held))
	for name, h := range c.held {
		m[name] = h.version
	}
	return m
}
