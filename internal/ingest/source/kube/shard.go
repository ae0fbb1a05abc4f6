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

// shard is the objects of one kind, of all namespaces or of one: what one reflector follows. The store's lock guards it.
type shard struct {
	*store
	kind      api.KindInfo
	namespace string // empty: all
	only      string // the name of the one object that is followed; empty: all are
	title     string // for people
	objects   map[types.NamespacedName]*entry

	// installed says that a custom kind is there to be followed, listed that a list was read to its end.
	installed, listed bool
	// err is why the last list or watch failed, nil if it did not, and since when it does.
	err   error
	since time.Time
	// doubted is until when objects are kept although a list lacked them, zero if there are none; doubting says that another list
	// is to be asked for then.
	doubted  time.Time
	doubting bool
}

// entry is what is known of an object, and what was sent of it. The object itself is not kept: whoever reads it does.
type entry struct {
	uid     types.UID
	version string // resource version
	gone    bool
	// missing says that the last list did not have it, which is doubted.
	missing bool

	now, sent state
	// config is the object as now says, until it is sent.
	config                 *config.Config
	problems, sentProblems []config.Problem
	// generation is that of the object that the problems are of.
	generation, sentGeneration int64
}

// state is an object as far as somebody may see a difference: generations are what the status of objects is about.
type state struct {
	there      bool // and can be used
	hash       uint64
	generation int64
}

func stateOf(c *config.Config) state { return state{true, c.Hash, c.Generation} }

var (
	_ cache.ReflectorStore    = (*shard)(nil)
	_ cache.TransformingStore = (*shard)(nil)
)

// Transformer makes of an object what is kept of it, as it arrives, so that a list is never there in full.
func (s *shard) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if _, done := o.(*arrival); done {
			return o, nil
		}
		object, err := object(o)
		if err != nil {
			return nil, err
		}
		return s.arrive(object), nil
	}
}

// arrive converts an object, unless it is the version that is known.
func (s *shard) arrive(o metav1.Object) *arrival {
	name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	s.mu.Lock()
	e := s.objects[name]
	known := e != nil && !e.gone && e.version == o.GetResourceVersion() && e.uid == o.GetUID()
	s.mu.Unlock()
	if known {
		return &arrival{ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}}
	}
	return s.convert(o)
}

// convert is arrive, but for a panic: then the object cannot be used, and its last good version stays.
func (s *shard) convert(o metav1.Object) (a *arrival) {
	key := config.Key{Kind: s.kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
	err := s.recovery.Call("source", func() error { a = arrive(s.kind, s.revision, o); return nil }, "object", key.String(), "source", s.name)
	if err == nil {
		return a
	}
	return &arrival{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		},
		problems: []config.Problem{{
			Key: key, Severity: config.Error, Reason: "internal error, please report it with the control plane's log: " + err.Error() + ". This version is not used",
		}},
	}
}

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

// Add takes up an object that a watch tells of.
func (s *shard) Add(o any) error { return s.watched(o) }

// Update takes up an object that a watch tells of.
func (s *shard) Update(o any) error { return s.watched(o) }

func (s *shard) watched(o any) error {
	object, err := object(o)
	if err != nil {
		return err
	}
	a := s.arrive(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.objects[a.name()]; e != nil && e.uid == a.UID && older(a.ResourceVersion, e.version) {
		return nil // a watch that begins anew may tell of what is known
	}
	s.put(a)
	return nil
}

// Delete takes away an object that a watch says is gone. One of the same name that was made since is not meant.
func (s *shard) Delete(o any) error {
	object, err := object(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if e := s.objects[name]; e != nil && (e.uid == object.GetUID() || object.GetUID() == "") {
		s.drop(name, e)
	}
	return nil
}

// Replace takes up a list that was read to its end.
func (s *shard) Replace(list []any, _ string) error {
	arrivals := make([]*arrival, 0, len(list))
	for _, o := range list {
		a, done := o.(*arrival)
		if !done {
			object, err := object(o)
			if err != nil {
				return err
			}
			a = s.arrive(object)
		}
		arrivals = append(arrivals, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[types.NamespacedName]bool, len(arrivals))
	for _, a := range arrivals {
		there[a.name()] = true
		s.put(a)
	}
	s.dropMissing(there)
	s.listed = true
	s.signal()
	return nil
}

// fewMissing is how many objects may be missing from a list without a doubt, however few there are.
const fewMissing = 10

// dropMissing takes away what a list does not have. If it lacks most of what there was, an API server that lost its memory is as
// likely as that it is all gone: then it is kept until another list, some time later, says the same. The store is locked.
func (s *shard) dropMissing(there map[types.NamespacedName]bool) {
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
	if len(missing) > fewMissing && 2*len(missing) > live && (s.doubted.IsZero() || now.Before(s.doubted)) {
		if s.doubted.IsZero() {
			s.doubted, s.doubting = now.Add(s.doubt), true
		}
		for _, name := range missing {
			s.objects[name].missing = true
		}
		return
	}
	s.doubted, s.doubting = time.Time{}, false
	for _, name := range missing {
		s.drop(name, s.objects[name])
	}
}

// Resync is of no use here.
func (s *shard) Resync() error { return nil }

// put takes up an object. The store is locked.
func (s *shard) put(a *arrival) {
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
		s.drop(name, e)
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
		e.problems = append(a.problems, config.Problem{Key: key, Severity: config.Warning, Reason: "has errors now; it stays in use as it was before"})
	case a.config == nil:
		e.problems = a.problems
	default:
		if e.now == stateOf(a.config) {
			event = "updatesame"
		}
		e.now, e.config, e.problems = stateOf(a.config), a.config, a.problems
	}
	s.metrics.Event(s.kind.Kind, event)
	s.touch(s, name)
}

// drop takes an object away. The store is locked.
func (s *shard) drop(name types.NamespacedName, e *entry) {
	if e.gone {
		delete(s.objects, name)
		return
	}
	s.metrics.Event(s.kind.Kind, "delete")
	e.gone, e.missing, e.now, e.config, e.problems = true, false, state{}, nil, nil
	s.touch(s, name)
}

// clear takes all objects away: their kind is not there any more.
func (s *shard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.objects {
		s.drop(name, e)
	}
	s.installed, s.listed, s.err, s.doubted, s.doubting = false, false, nil, time.Time{}, false
	s.signal()
}

// older says whether a resource version is certainly older than, or the same as, another.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}
