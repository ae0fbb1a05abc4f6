package credential

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Reach is how much is read at once, and so what the control plane must be allowed to read.
type Reach string

const (
	// Names follows each object by its name: the control plane may be bound to single Secrets (RBAC's resourceNames).
	Names Reach = "names"
	// Namespaces follows all Secrets of a namespace in which a proxy asks for one.
	Namespaces Reach = "namespaces"
	// Cluster follows all Secrets of the cluster as soon as a proxy asks for one.
	Cluster Reach = "cluster"
)

// Options say where to look, and how often.
type Options struct {
	// Client is of the API server that has the objects and the accounts; nil: nothing is read until there is one (Use).
	Client *kube.Client
	// Cluster is that of the API server, if it is not the one that config is read from: then Secrets are RemoteSecrets.
	Cluster mesh.ClusterID
	// Reach is Names if empty.
	Reach Reach
	// Recheck is how long an answer about an account's right is believed, as long as a proxy of it is connected: what is revoked is
	// withdrawn that much later; 0: 2 s. Linger is how long something is followed that nobody asks for any more; 0: 1 min.
	Recheck, Linger time.Duration
	// Now is the time; nil: the system's.
	Now func() time.Time
	Log *slog.Logger
	// Failed, if set, counts what cannot be read or asked, each time.
	Failed func()
}

// Source follows what proxies ask for.
type Source struct {
	o    Options
	wake chan struct{} // holds one token when there may be something to do

	mu       sync.Mutex
	client   *kube.Client
	outdated bool            // watches are by another client
	wants    map[string]Want // by stream
	expected []expectation
	kept     map[config.Key]interest // what is followed
	watches  map[place]*watch
	rights   map[mesh.Account]*right
	said     said
	progress chan struct{} // is closed when something was sent
}

// said is what was sent.
type said struct {
	objects  map[config.Key]*config.Config
	rights   map[mesh.Account]bool
	problems map[string][]config.Problem // by scope
}

// interest is when somebody last wanted an object, and whether as a fallback only.
type interest struct {
	last     time.Time
	fallback bool
}

// expectation is what a proxy surely asks for soon.
type expectation struct {
	want  Want
	until time.Time
}

var _ source.Source = (*Source)(nil)

// New makes a Source that nobody has asked anything. It asks the API server nothing before Run.
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
	return &Source{
		o: o, client: o.Client, wake: make(chan struct{}, 1), progress: make(chan struct{}),
		wants: map[string]Want{}, kept: map[config.Key]interest{}, watches: map[place]*watch{}, rights: map[mesh.Account]*right{},
		said: said{objects: map[config.Key]*config.Config{}, rights: map[mesh.Account]bool{}, problems: map[string][]config.Problem{}},
	}
}

// Name tells it from other sources.
func (s *Source) Name() string { return "credentials" }

// Use has another client used from now on. What was read by the one before stays until it is read again.
func (s *Source) Use(client *kube.Client) {
	s.mu.Lock()
	s.outdated = s.client != nil && s.client != client
	s.client = client
	s.mu.Unlock()
	s.rouse()
}

// Set replaces what a stream asks for; the zero Want: nothing any more.
func (s *Source) Set(stream string, w Want) {
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
	s.rouse()
}

func (s *Source) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run follows what is asked for until the context ends. It is in sync from the start: nothing is asked for yet.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.review(ctx) })
	batch := mesh.Batch{{Op: mesh.Synced, Source: s.Name()}}
	for {
		if len(batch) > 0 {
			select {
			case out <- batch:
			case <-ctx.Done():
				return nil
			}
		}
		s.advance()
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-time.After(s.o.Linger):
		}
		batch = s.step(ctx, &running)
	}
}

// advance tells who waits that something was sent.
func (s *Source) advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.progress)
	s.progress = make(chan struct{})
}

// step starts and stops watches, and gives what is news.
func (s *Source) step(ctx context.Context, running *sync.WaitGroup) mesh.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	s.expected = slices.DeleteFunc(s.expected, func(e expectation) bool { return now.After(e.until) })
	objects, accounts := s.desired()
	if s.client != nil {
		s.keep(ctx, objects, now, running)
	}
	for a, r := range s.rights {
		switch {
		case accounts[a]:
			r.wanted = now
		case now.Sub(r.wanted) >= s.o.Linger:
			delete(s.rights, a)
		}
	}
	for a := range accounts {
		if s.rights[a] == nil {
			s.rights[a] = &right{wanted: now}
		}
	}
	return s.news()
}

// keep has the watches that are needed, and no others. What nobody wants any more is kept for a time. s.mu is held.
func (s *Source) keep(ctx context.Context, objects map[config.Key]bool, now time.Time, running *sync.WaitGroup) {
	for k, needed := range objects {
		s.kept[k] = interest{now, !needed}
	}
	needed := map[place]bool{}
	for k, wanted := range s.kept {
		if now.Sub(wanted.last) >= s.o.Linger {
			delete(s.kept, k)
			continue
		}
		p := s.placeOf(k)
		if needed[p] = true; s.watches[p] == nil {
			s.follow(ctx, p, nil, running)
		}
	}
	if s.outdated {
		s.outdated = false
		for p, w := range s.watches {
			w.stop()
			s.follow(ctx, p, w, running)
		}
	}
	for p, w := range s.watches {
		if !needed[p] {
			w.stop()
			delete(s.watches, p)
		}
	}
}

// news gives what is to be said that was not. s.mu is held.
func (s *Source) news() mesh.Batch {
	batch := s.rightNews()
	for k := range s.kept {
		if now := s.objectOf(k); now != nil && !same(s.said.objects[k], now) {
			s.said.objects[k] = now
			batch = append(batch, mesh.Event{Source: s.Name(), Config: now})
		}
	}
	for k, was := range s.said.objects {
		w := s.watches[s.placeOf(k)] // it is followed, if it is kept
		_, kept := s.kept[k]
		if !kept || w.synced && w.objects[k] == nil {
			delete(s.said.objects, k)
			batch = append(batch, mesh.Event{Op: mesh.Delete, Source: s.Name(), Config: &config.Config{Meta: config.Meta{Key: was.Key}}})
		}
	}
	return append(batch, s.problemNews()...)
}

// objectOf gives an object that is followed, nil if it is not there or not known. s.mu is held.
func (s *Source) objectOf(k config.Key) *config.Config {
	if w := s.watches[s.placeOf(k)]; w != nil {
		return w.objects[k]
	}
	return nil
}

func same(a, b *config.Config) bool { return a != nil && a.Hash == b.Hash }

// placeOf says by which watch an object is followed. ConfigMaps are followed by name in any case: many are large, and written often.
func (s *Source) placeOf(k config.Key) place {
	switch {
	case s.o.Reach == Names, k.Kind == api.ConfigMap:
		return place(k)
	case s.o.Reach == Namespaces:
		return place{Kind: k.Kind, Namespace: k.Namespace}
	default:
		return place{Kind: k.Kind}
	}
}
