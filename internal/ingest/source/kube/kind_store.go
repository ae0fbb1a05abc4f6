package kube

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// kindStore is the store of the objects of one kind, in all namespaces or in one. It is filled by
// one reflector and guarded by store.mu.
type kindStore struct {
	*store
	kind      api.KindInfo
	namespace string // "" for all
	only      string // the name of the only object to read; "" for all
	title     string // for logs and Problems
	objects   map[types.NamespacedName]*entry
	texts     interner // not guarded by store.mu

	// installed is set if a custom kind is served, listed after the first complete list.
	installed, listed bool
	// err is the reason of the last failure, or nil, and since the time of the first one.
	err   error
	since time.Time
	// shrinkDeadline is the time until which objects are kept that a list lacked; zero if there are
	// none. relistDue is set if another list is due then.
	shrinkDeadline time.Time
	relistDue      bool
}

// entry is the current and the sent state of one object. The object itself is not kept after it was
// sent.
type entry struct {
	uid     types.UID
	version string // the resource version
	gone    bool
	// missing is set if the last list lacked the object and it is kept.
	missing bool

	now, sent state
	// config is the object of the state now, until it is sent.
	config                 *config.Config
	problems, sentProblems []config.Problem
	// generation is the generation of the object that problems refer to.
	generation, sentGeneration int64
}

// state is the part of an object whose change must be sent. It includes the generation, which the
// status of objects refers to.
type state struct {
	there      bool // it exists and is valid
	hash       uint64
	generation int64
}

// stateOf returns the state of a valid object, whose Config is c.
func stateOf(c *config.Config) state { return state{true, c.Hash, c.Generation} }

var (
	_ cache.ReflectorStore    = (*kindStore)(nil)
	_ cache.TransformingStore = (*kindStore)(nil)
)

// Transformer returns a function that converts each object on arrival, so that a complete list is
// never in memory. A converted object stays as it is. The function returns an error for anything
// that is no object.
func (s *kindStore) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if _, done := o.(*received); done {
			return o, nil
		}
		object, err := object(o)
		if err != nil {
			return nil, err
		}
		return s.convertIfNew(object), nil
	}
}

// convertIfNew returns an object as received and converted. If the store already has its version,
// the result has only its identity. A new one is converted by convertGuarded. It takes s.mu, but
// not during the conversion.
func (s *kindStore) convertIfNew(o metav1.Object) *received {
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	s.mu.Lock()
	e := s.objects[name]
	known := e != nil && !e.gone && e.version == o.GetResourceVersion() && e.uid == o.GetUID()
	s.mu.Unlock()
	if known {
		return &received{
			ObjectMeta: metav1.ObjectMeta{
				Name:            name.Name,
				Namespace:       name.Namespace,
				UID:             o.GetUID(),
				ResourceVersion: o.GetResourceVersion(),
			},
		}
	}
	return s.convertGuarded(o)
}

// convertGuarded returns an object as received and converted. If the conversion panics, the result
// has a Problem and no Config, so that the last good version stays in use. Without a Recorder the
// panic propagates.
func (s *kindStore) convertGuarded(o metav1.Object) (a *received) {
	key := config.Key{Kind: s.kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	err := s.recovery.Call(
		"source",
		func() error { a = convertObject(s.kind, s.revision, &s.texts, o); return nil },
		"object",
		key.String(),
		"source",
		s.name,
	)
	if err == nil {
		return a
	}
	return &received{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			Generation: o.GetGeneration(),
		},
		problems: []config.Problem{{
			Key: key, Severity: config.Error, Reason: "internal error, please report it with the control plane's log: " + err.Error() + ". This version is not used",
		}},
	}
}

// object returns an element of client-go's stores as an object, for a deleted object its last known
// state. It returns an error if o is neither.
func object(o any) (metav1.Object, error) {
	if gone, is := o.(cache.DeletedFinalStateUnknown); is {
		o = gone.Obj
	}
	object, ok := o.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", o)
	}
	return object, nil
}

// Add stores an object from a watch (applyWatched).
func (s *kindStore) Add(o any) error { return s.applyWatched(o) }

// Update stores an object from a watch (applyWatched).
func (s *kindStore) Update(o any) error { return s.applyWatched(o) }

// applyWatched stores an object from a watch. It ignores versions that are known, which a restarted
// watch may repeat, and returns an error if o is no object. It takes s.mu.
func (s *kindStore) applyWatched(o any) error {
	object, err := object(o)
	if err != nil {
		return err
	}
	a := s.convertIfNew(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[a.name()]; e != nil && e.uid == a.UID && isNotNewer(a.ResourceVersion, e.version) {
		return nil // a restarted watch may repeat known versions
	}
	s.storeObject(a)
	return nil
}

// Delete deletes an object after a watch event. It ignores the event for an unknown name, and if an
// object with another UID has the name now; an event without a UID deletes any. It returns an error
// if o is no object. It takes s.mu.
func (s *kindStore) Delete(o any) error {
	object, err := object(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if e := s.objects[name]; e != nil && (e.uid == object.GetUID() || object.GetUID() == "") {
		s.deleteObject(name, e)
	}
	return nil
}

// Replace stores a complete list, drops missing objects (dropMissing) and wakes Run. If an element
// is no object, it returns an error and changes nothing. It takes s.mu.
func (s *kindStore) Replace(list []any, _ string) error {
	arrivals := make([]*received, 0, len(list))
	for _, o := range list {
		a, done := o.(*received)
		if !done {
			object, err := object(o)
			if err != nil {
				return err
			}
			a = s.convertIfNew(object)
		}
		arrivals = append(arrivals, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[types.NamespacedName]bool, len(arrivals))
	for _, a := range arrivals {
		there[a.name()] = true
		s.storeObject(a)
	}
	s.dropMissing(there)
	s.listed = true
	s.wake.Notify()
	return nil
}

// fewMissing is the number of objects that a list may lack without a confirmation, regardless of
// the number of objects.
const fewMissing = 10

// dropMissing deletes the objects that are not in there, a complete list. If more than half are
// missing, and more than fewMissing, an API server that lost its data is as likely as a deletion;
// then they are kept until a second list after Options.ShrinkConfirmation confirms it. store.mu
// must be held.
func (s *kindStore) dropMissing(there map[types.NamespacedName]bool) {
	var missing []types.NamespacedName
	live := 0
	for name, e := range s.objects {
		if e.gone {
			continue
		}
		live++
		if !there[name] {
			missing = append(missing, name)
		}
	}
	now := s.clock.Now()
	if len(missing) > fewMissing && 2*len(missing) > live &&
		(s.shrinkDeadline.IsZero() || now.Before(s.shrinkDeadline)) {
		if s.shrinkDeadline.IsZero() {
			s.shrinkDeadline, s.relistDue = now.Add(s.shrinkConfirmation), true
		}
		for _, name := range missing {
			s.objects[name].missing = true
		}
		return
	}
	s.shrinkDeadline, s.relistDue = time.Time{}, false
	for _, name := range missing {
		s.deleteObject(name, s.objects[name])
	}
}

// Resync does nothing.
func (s *kindStore) Resync() error { return nil }

// storeObject stores an object as received, marks it as changed and counts the event. A known
// version is ignored, a foreign object is deleted. Of an invalid object the last good version stays
// in use, if there is one, and it has Problems. store.mu must be held.
func (s *kindStore) storeObject(a *received) {
	name := a.name()
	e := s.objects[name]
	if e == nil {
		e = &entry{gone: true}
		s.objects[name] = e
	}
	e.missing = false
	if !e.gone && e.uid == a.UID && e.version == a.ResourceVersion {
		return
	}
	if a.foreign {
		s.deleteObject(name, e)
		return
	}
	event := "update"
	if e.gone {
		event = "add"
	}
	e.gone, e.uid, e.version, e.generation = false, a.UID, a.ResourceVersion, a.Generation
	switch {
	case a.config == nil && e.now.there:
		key := config.Key{Kind: s.kind.Kind, Namespace: a.Namespace, Name: a.Name}
		e.problems = append(
			a.problems,
			config.Problem{
				Key:      key,
				Severity: config.Warning,
				Reason:   "has errors now; it stays in use as it was before",
			},
		)
	case a.config == nil:
		e.problems = a.problems
	default:
		if e.now == stateOf(a.config) {
			event = "updatesame"
		}
		e.now, e.config, e.problems = stateOf(a.config), a.config, a.problems
	}
	s.metrics.Event(s.kind.Kind, event)
	s.markDirty(s, name)
}

// deleteObject deletes an object, marks it as changed and counts the event. An object that was
// deleted already is forgotten, without these. store.mu must be held.
func (s *kindStore) deleteObject(name types.NamespacedName, e *entry) {
	if e.gone {
		delete(s.objects, name)
		return
	}
	s.metrics.Event(s.kind.Kind, "delete")
	e.gone, e.missing, e.now, e.config, e.problems = true, false, state{}, nil, nil
	s.markDirty(s, name)
}

// deleteAll deletes all objects and wakes Run, because their kind was uninstalled. The kind is then
// neither installed nor listed, without a failure.
func (s *kindStore) deleteAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.objects {
		s.deleteObject(name, e)
	}
	s.installed, s.listed, s.err, s.shrinkDeadline, s.relistDue = false, false, nil, time.Time{}, false
	s.wake.Notify()
}

// isNotNewer reports whether resource version a is known to be older than or equal to b. It returns
// false if they cannot be compared.
func isNotNewer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}
