package push

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// ObjectTracker observes how one version of an object, or its deletion, reaches the proxies.
//
// A proxy has the version if two conditions were met at one moment after all classes were updated
// to a snapshot that contains it. First, the proxy has acknowledged every resource that is
// generated from the object. Second, it has answered everything that it had been sent until then:
// the first condition alone would miss resources that are no longer generated from the object.
// A proxy that had the version once stays in the result as such, whatever changes afterwards.
//
// An ObjectTracker must not be used by several goroutines at the same time. It needs no clean-up.
type ObjectTracker struct {
	pusher   *Pusher
	object   config.Key
	snapshot uint64
	// settled is set once no configuration was held back for other proxies' sake.
	settled bool
	proxies map[*rollout.Client]*trackedProxy
}

// trackedProxy is the state of one stream in an ObjectTracker.
type trackedProxy struct {
	// done is set once the proxy had the version, and concerned once it needed it.
	done, concerned bool
	sent            map[string]uint64 // see stream.Machine.UnconfirmedTypes
}

// TrackObject returns an ObjectTracker for the version of an object that is in the snapshot with
// this number and in later ones. A snapshot need not contain the object: its deletion can be
// tracked too.
func (x Reports) TrackObject(object config.Key, snapshot uint64) *ObjectTracker {
	return &ObjectTracker{
		pusher:   x.pusher,
		object:   object,
		snapshot: snapshot,
		proxies:  map[*rollout.Client]*trackedProxy{},
	}
}

// ObjectProgress is how far a version of an object has come.
type ObjectProgress struct {
	// Pushed is true if all classes were updated to a snapshot with the version, and nothing is
	// held back until other proxies have acknowledged their part of a change. As long as it is
	// false, no proxy counts as up to date.
	Pushed bool
	// Proxies is the number of connected proxies that need the version: they are served a resource
	// generated from the object, or may not have replaced earlier configuration yet. UpToDate is
	// how many of them have it.
	Proxies, UpToDate int
	// Behind are the proxies that need the version and do not have it, sorted by the ID of their
	// stream.
	Behind []ProxyBehind
	// Quarantined are the resources generated from the object, or from the version before it, that
	// are withheld from proxies, and the object itself if it is a suspended EnvoyFilter.
	Quarantined []Quarantined
}

// Reached reports whether the snapshot was pushed, no proxy is behind, and no resource generated
// from the object is quarantined.
func (x ObjectProgress) Reached() bool {
	return x.Pushed && len(x.Behind) == 0 && len(x.Quarantined) == 0
}

// ProxyBehind is a proxy that does not have a version of an object yet.
type ProxyBehind struct {
	// ID is the stream's ID (see Connection).
	ID    string
	Proxy *mesh.Proxy
	// Resources are missing there: first those generated from the object. A resource without a name
	// means other resources of the type, which may replace what was generated from an earlier
	// version of the object.
	Resources []ResourceBehind
	// Since is since when the first of them is missing: when the response with it was written, or
	// the change published that was not sent. It is zero if neither is known.
	Since time.Time
}

// ResourceBehind is a resource that a proxy lacks.
type ResourceBehind struct {
	TypeURL, Name string
	State         stream.Delivery
	// Message is the error with which the proxy rejected the type last, if State is Rejected.
	Message string
}

// Progress returns how many connected proxies need the version, how many of them have it, and the
// quarantined resources. Behind has the other proxies, sorted by the ID of their stream. It updates
// t: a proxy that had the version once stays up to date, and Pushed stays true. Pushed becomes true
// when the rollout serves the tracked snapshot and holds nothing back. Each call costs as much as
// Reports.Distribution for one object.
func (t *ObjectTracker) Progress() ObjectProgress {
	var members []rollout.Members
	var served uint64
	var x ObjectProgress
	t.pusher.queryRollout(func(r *rollout.Rollout) {
		members, served = r.Members(), r.Served()
		t.settled = t.settled || served >= t.snapshot && !r.NeedsProgress()
		for _, q := range r.Quarantined() {
			if q.Suspended == t.object || slices.Contains(q.From, t.object) {
				x.Quarantined = append(x.Quarantined, q)
			}
		}
	})
	x.Pushed = t.settled
	found := map[*resource.Set][]*resource.Resource{}
	for _, m := range members {
		t.addClass(m, t.resourcesOf(m, found), &x)
	}
	slices.SortFunc(x.Behind, func(a, b ProxyBehind) int { return cmp.Compare(a.ID, b.ID) })
	return x
}

// resourcesOf returns the resources of class m that were generated from the tracked object. found
// caches the result for each set.
func (t *ObjectTracker) resourcesOf(m rollout.Members,
	found map[*resource.Set][]*resource.Resource) []*resource.Resource {
	var list []*resource.Resource
	objects := map[config.Key]struct{}{t.object: {}}
	for _, set := range m.Sets {
		of, known := found[set]
		if !known {
			of = findGenerated(set, objects)[t.object]
			found[set] = of
		}
		list = append(list, of...)
	}
	return list
}

// addClass adds the open streams of class m to Proxies of x, and to UpToDate or Behind. list has
// the class's resources from the object. Before x.Pushed every proxy is behind, even without a
// missing resource. Afterwards, a proxy that does not get such resources is included only if it was
// ever behind.
func (t *ObjectTracker) addClass(m rollout.Members, list []*resource.Resource, x *ObjectProgress) {
	for _, handle := range m.Clients {
		c := t.pusher.clients.get(handle)
		if c == nil { // the stream has ended
			continue
		}
		p := t.proxies[handle]
		if p == nil {
			p = &trackedProxy{sent: map[string]uint64{}}
			t.proxies[handle] = p
		}
		b := ProxyBehind{ID: c.id, Proxy: c.node}
		if !p.done {
			b.Resources, b.Since = c.findBehind(list, x.Pushed, m.Resources != nil, p.sent)
			p.done = x.Pushed && len(b.Resources) == 0
		}
		p.concerned = p.concerned || len(list) > 0 || !p.done
		if !p.concerned {
			continue
		}
		x.Proxies++
		if p.done {
			x.UpToDate++
			continue
		}
		x.Behind = append(x.Behind, b)
	}
}

// findBehind returns the resources of list that the proxy subscribes to and has not acknowledged,
// and since when. If pushed is set, it adds other types, without a name, whose responses may still
// be unsent or unanswered since the first such call. sent stores that state between calls. offered
// must be false while parts of the class's resources are held back.
func (s *session) findBehind(
	list []*resource.Resource, pushed, offered bool, sent map[string]uint64,
) (behind []ResourceBehind, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		state := s.machine.DeliveryOf(r)
		if state <= stream.Acknowledged {
			continue
		}
		b := ResourceBehind{TypeURL: r.TypeURL, Name: r.Name, State: state}
		if state == stream.Rejected {
			b.Message = s.machine.Message(r.TypeURL)
		}
		behind = append(behind, b)
	}
	if !pushed {
		return behind, s.behindSince(behind)
	}
	if offered && s.mailbox.Load() == nil { // the stream has taken the newest ResourceSnapshot
		s.machine.RecordSent(sent)
	}
	for _, typeURL := range s.machine.UnconfirmedTypes(sent) {
		if slices.ContainsFunc(behind, func(b ResourceBehind) bool { return b.TypeURL == typeURL }) {
			continue
		}
		state := stream.Unsent
		if _, recorded := sent[typeURL]; recorded {
			state = stream.Unanswered
		}
		behind = append(behind, ResourceBehind{TypeURL: typeURL, State: state})
	}
	return behind, s.behindSince(behind)
}

// behindSince returns since when the first of the resources is missing (ProxyBehind.Since). An
// unsent resource is missing since the oldest change not answered completely was published, any
// other since its type was sent last. It returns zero if no time is known. s.mu must be held.
func (s *session) behindSince(list []ResourceBehind) (since time.Time) {
	unsent := s.changed
	if o := s.mailbox.Load(); unsent.IsZero() && o != nil {
		unsent = o.changed
	}
	for _, b := range list {
		at := unsent
		if b.State != stream.Unsent {
			at = s.sent[b.TypeURL]
		}
		if since.IsZero() || !at.IsZero() && at.Before(since) {
			since = at
		}
	}
	return since
}
