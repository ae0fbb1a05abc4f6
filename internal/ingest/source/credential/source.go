package credential

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Reach is the scope of watches, and thus of the permissions that the control plane needs.
type Reach string

const (
	// Names watches each object by name. The control plane's Role can be limited to these Secrets
	// (RBAC resourceNames).
	Names Reach = "names"
	// Namespaces watches all Secrets of each namespace in which a Secret is requested.
	Namespaces Reach = "namespaces"
	// Cluster watches all Secrets of the cluster once a Secret is requested.
	Cluster Reach = "cluster"
)

// Options configure a Source.
type Options struct {
	// Client is the client of the API server with the objects and accounts. If nil, nothing is read
	// until SetClient is called.
	Client *kube.Client
	// Cluster is the cluster of the API server, if it is not the config cluster. Secrets then have
	// the kind RemoteSecret.
	Cluster mesh.ClusterID
	// Reach is the scope of watches (default Names).
	Reach Reach
	// Recheck is the interval at which the permission of a connected proxy's account is reviewed,
	// and thus the delay of a revocation (default 2 s). Linger is how long an object is watched
	// after the last request for it (default 1 min).
	Recheck, Linger time.Duration
	// Now returns the current time (default time.Now).
	Now func() time.Time
	Log *slog.Logger
	// Failed is called for each failed request, if it is set.
	Failed func()
}

// Source reads the objects that proxies request.
type Source struct {
	o    Options
	wake notify.Wake // wakes Run when there may be work

	mu          sync.Mutex
	client      *kube.Client
	outdated    bool            // watches use an older client
	wants       map[string]Want // by stream
	expected    []expectation
	kept        map[config.Key]interest // the objects that are watched
	watches     map[watchScope]*watch
	permissions map[mesh.Account]*permission
	sent        sentState
	progress    notify.Broadcast // notified when events have been sent
}

// sentState contains the last state that was sent.
type sentState struct {
	objects     map[config.Key]*config.Config
	permissions map[mesh.Account]bool
	problems    *emit.ProblemEmitter[string] // by scope
}

// interest records when an object was last requested, and whether only as a fallback.
type interest struct {
	last     time.Time
	fallback bool
}

// expectation is a Want that a proxy will request soon.
type expectation struct {
	want  Want
	until time.Time
}

var _ source.Source = (*Source)(nil)

// New returns a Source without requests. It sends nothing to the API server before Run. Reach
// defaults to Names, Recheck to 2 s, Linger to 1 min, Now to time.Now. Client, Log and Failed may
// be nil.
func New(o Options) *Source {
	o.Reach = cmp.Or(o.Reach, Names)
	o.Recheck, o.Linger = cmp.Or(o.Recheck, 2*time.Second), cmp.Or(o.Linger, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failed == nil {
		o.Failed = func() {}
	}
	s := &Source{
		o: o, client: o.Client, wake: notify.NewWake(),
		wants: map[string]Want{}, kept: map[config.Key]interest{}, watches: map[watchScope]*watch{},
		permissions: map[mesh.Account]*permission{},
		sent: sentState{
			objects:     map[config.Key]*config.Config{},
			permissions: map[mesh.Account]bool{},
		},
	}
	s.sent.problems = emit.NewProblemEmitter(s.Name(), func(scope string) string { return scope })
	return s
}

// Name returns the name of the source.
func (s *Source) Name() string { return "credentials" }

// SetClient replaces the client. Objects that the former client has read stay in use until they
// have been read again.
func (s *Source) SetClient(client *kube.Client) {
	s.mu.Lock()
	s.outdated = s.outdated || s.client != nil && s.client != client
	s.client = client
	s.mu.Unlock()
	s.wake.Notify()
}

// SetWant replaces what a stream requests, and wakes Run. The zero Want removes it. It does nothing
// if the Want is unchanged. The objects of other streams are not affected. It may be called by any
// goroutine.
func (s *Source) SetWant(stream string, w Want) {
	s.mu.Lock()
	if old := s.wants[stream]; old.equal(w) {
		s.mu.Unlock()
		return
	}
	if w.empty() {
		delete(s.wants, stream)
	} else {
		s.wants[stream] = w
	}
	s.mu.Unlock()
	s.wake.Notify()
}

// Run reads the requested objects, and reviews the permissions of the requesting accounts, until
// the context ends, and then returns nil. It sends the changes of both, and Problems for failures.
// It sends Synced at once, because nothing is requested at the start.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.reviewPermissions(ctx) })
	batch := mesh.Batch{{Op: mesh.Synced, Source: s.Name()}}
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		s.signalProgress()
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake.C():
		case <-time.After(s.o.Linger):
		}
		batch = s.updateWatches(ctx, &running)
	}
}

// signalProgress wakes the callers of Await after a batch has been sent.
func (s *Source) signalProgress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress.Notify()
}

// updateWatches starts and stops watches and permission reviews for the present requests, and
// returns the events to send. It drops requests of Await that are older than Options.Linger.
// Objects and accounts are kept for Options.Linger after the last request. Without a client it
// starts no watch. It takes s.mu.
func (s *Source) updateWatches(ctx context.Context, running *sync.WaitGroup) mesh.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	s.expected = slices.DeleteFunc(s.expected, func(e expectation) bool { return now.After(e.until) })
	objects, accounts := s.desiredObjects()
	if s.client != nil {
		s.syncWatches(ctx, objects, now, running)
	}
	for a, r := range s.permissions {
		switch {
		case accounts[a]:
			r.wanted = now
		case now.Sub(r.wanted) >= s.o.Linger:
			delete(s.permissions, a)
		}
	}
	for a := range accounts {
		if s.permissions[a] == nil {
			s.permissions[a] = &permission{wanted: now}
		}
	}
	return s.pendingEvents()
}

// syncWatches starts missing watches and stops unneeded ones. objects are the requested objects,
// true unless only as a fallback. They stay watched for Options.Linger after the last request.
// After a change of the client it restarts all watches. s.mu must be held.
func (s *Source) syncWatches(ctx context.Context, objects map[config.Key]bool, now time.Time, running *sync.WaitGroup) {
	for k, needed := range objects {
		s.kept[k] = interest{now, !needed}
	}
	needed := map[watchScope]bool{}
	for k, wanted := range s.kept {
		if now.Sub(wanted.last) >= s.o.Linger {
			delete(s.kept, k)
			continue
		}
		p := s.scopeOf(k)
		if needed[p] = true; s.watches[p] == nil {
			s.startWatch(ctx, p, nil, running)
		}
	}
	if s.outdated {
		s.outdated = false
		for p, w := range s.watches {
			w.stop()
			s.startWatch(ctx, p, w, running)
		}
	}
	for p, w := range s.watches {
		if !needed[p] {
			w.stop()
			delete(s.watches, p)
		}
	}
}

// pendingEvents returns the events for all differences to what was sent, and records them as sent.
// An object is deleted only if it is no longer requested, or its watch is in sync and lacks it.
// s.mu must be held.
func (s *Source) pendingEvents() mesh.Batch {
	batch := s.permissionEvents()
	for k := range s.kept {
		if now := s.objectOf(k); now != nil && !hasSameHash(s.sent.objects[k], now) {
			s.sent.objects[k] = now
			batch = append(batch, mesh.Event{Source: s.Name(), Config: now})
		}
	}
	for k, was := range s.sent.objects {
		w := s.watches[s.scopeOf(k)] // never nil for a kept object
		_, kept := s.kept[k]
		if !kept || w.synced && w.objects[k] == nil {
			delete(s.sent.objects, k)
			batch = append(
				batch,
				mesh.Event{Op: mesh.Delete, Source: s.Name(), Config: &config.Config{Meta: config.Meta{Key: was.Key}}},
			)
		}
	}
	return append(batch, s.problemEvents()...)
}

// objectOf returns a watched object, or nil if it does not exist or is not known. s.mu must be
// held.
func (s *Source) objectOf(k config.Key) *config.Config {
	if w := s.watches[s.scopeOf(k)]; w != nil {
		return w.objects[k]
	}
	return nil
}

// hasSameHash reports whether a exists and has the hash of b, which must not be nil.
func hasSameHash(a, b *config.Config) bool { return a != nil && a.Hash == b.Hash }

// scopeOf returns the scope whose watch reads an object: the object itself, its namespace or the
// cluster, by Options.Reach. ConfigMaps are always watched by name, because many are large and
// change often.
func (s *Source) scopeOf(k config.Key) watchScope {
	switch {
	case s.o.Reach == Names, k.Kind == api.ConfigMap:
		return watchScope(k)
	case s.o.Reach == Namespaces:
		return watchScope{Kind: k.Kind, Namespace: k.Namespace}
	default:
		return watchScope{Kind: k.Kind}
	}
}
