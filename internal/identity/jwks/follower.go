package jwks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// followers are all that are at work. One goroutine has them, that of Source.Run.
type followers struct {
	*Source
	running *sync.WaitGroup
	of      map[mesh.KeySource]*follower
	before  map[mesh.KeySource]kept // what was got in a run before, and was not asked for yet; nil: the Memory was not read
}

// follower keeps the keys of one place up to date.
type follower struct {
	place   mesh.KeySource
	timeout atomic.Int64 // of an attempt, in nanoseconds; 0: as usual
	stop    context.CancelFunc
	set     mesh.KeySet // what was said of it, for whoever has followers
	before  string      // keys of a run before, which are used if there are none now
	idle    bool        // nobody asked for it at the last sweep
}

// follow starts what is newly asked for. What is not any more goes on until it is swept.
func (f *followers) follow(ctx context.Context) mesh.Batch {
	f.mu.Lock()
	wants := f.wants
	f.mu.Unlock()
	if f.before == nil && len(wants) > 0 { // whoever knows of rules has reached an API server
		f.before = f.keeper.load(ctx)
	}
	var batch mesh.Batch
	for _, place := range slices.SortedFunc(maps.Keys(wants), comparePlaces) {
		if one := f.of[place]; one != nil {
			one.timeout.Store(int64(wants[place]))
			continue
		}
		if len(f.of) >= maxSources {
			one := &mesh.KeySet{Source: place, Fault: fmt.Sprintf("keys are fetched from %d places already, and from no more", maxSources)}
			batch = append(batch, mesh.Event{Source: f.Name(), KeySet: one})
			continue
		}
		followed, stop := context.WithCancel(ctx)
		one := &follower{place: place, stop: stop, set: mesh.KeySet{Source: place}}
		if k := f.before[place]; time.Since(k.At) < keepFor {
			one.before = k.Text
		}
		delete(f.before, place)
		one.timeout.Store(int64(wants[place]))
		f.of[place] = one
		f.running.Go(func() { f.run(followed, one) })
	}
	return batch
}

func comparePlaces(a, b mesh.KeySource) int {
	return cmp.Or(cmp.Compare(a.URI, b.URI), cmp.Compare(a.Issuer, b.Issuer))
}

// take takes up what an attempt ended with, if that is news.
func (f *followers) take(r result) mesh.Batch {
	if f.of[r.of.place] != r.of {
		return nil // swept meanwhile
	}
	if !r.at.IsZero() {
		f.keeper.got(r.of.place, r.set.Text, r.at)
	}
	if r.of.set == r.set {
		return nil
	}
	if r.set.Text != r.of.set.Text {
		f.o.Log.Info("fetched: "+f.o.Of, "from", r.of.place.String(), "rotated", r.of.set.Text != "")
	}
	r.of.set = r.set
	return mesh.Batch{{Source: f.Name(), KeySet: &r.set}}
}

// sweep forgets what nobody has asked for since the sweep before, and starts what there is room for then.
func (f *followers) sweep(ctx context.Context) mesh.Batch {
	f.mu.Lock()
	wants := f.wants
	var batch mesh.Batch
	for place := range f.known { // those that there was no room for, too
		if _, wanted := wants[place]; !wanted && f.of[place] == nil {
			batch = append(batch, gone(f.Name(), place))
		}
	}
	f.mu.Unlock()
	for place, one := range f.of {
		_, wanted := wants[place]
		if !wanted && one.idle {
			one.stop()
			delete(f.of, place)
			f.keeper.forget(place)
			batch = append(batch, gone(f.Name(), place))
		}
		one.idle = !wanted
	}
	return append(batch, f.follow(ctx)...)
}

func gone(from string, place mesh.KeySource) mesh.Event {
	return mesh.Event{Op: mesh.Delete, Source: from, KeySet: &mesh.KeySet{Source: place}}
}

// run fetches again and again until the context ends.
func (s *Source) run(ctx context.Context, f *follower) {
	at := reader{client: s.o.Client, text: s.o.Read}
	known, failures := mesh.KeySet{Source: f.place, Text: f.before}, 0
	told := make(chan struct{})
	late := time.AfterFunc(firstWord, func() {
		defer close(told)
		s.send(ctx, result{of: f, set: mesh.KeySet{Source: f.place, Text: f.before, Fault: "the keys have not been fetched yet"}})
	})
	for {
		text, err := s.attempt(ctx, f, &at)
		if late != nil && !late.Stop() {
			<-told // else that could be the last word
		}
		late = nil
		if ctx.Err() != nil {
			return
		}
		var got time.Time
		if s.o.Fetched(err); err == nil {
			known.Text, known.Fault, failures, got = text, "", 0, time.Now()
		} else {
			level := slog.LevelDebug // one line for each sort of failure, however often it is tried again
			if failures++; known.Fault != fault(err) {
				level = slog.LevelWarn
			}
			known.Fault = fault(err)
			s.o.Log.Log(ctx, level, "could not be fetched: "+s.o.Of, "from", f.place.String(), "failures", failures, "inUse", known.Text != "", "err", err)
		}
		s.send(ctx, result{f, known, got})
		select {
		case <-time.After(s.pause(failures)):
		case <-ctx.Done():
			return
		}
	}
}

func (s *Source) send(ctx context.Context, r result) {
	select {
	case s.results <- r:
	case <-ctx.Done():
	}
}

// attempt fetches once, when it is its turn.
func (s *Source) attempt(ctx context.Context, f *follower, at *reader) (string, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	timeout := min(cmp.Or(time.Duration(f.timeout.Load()), usualTimeout), MaxTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return at.read(ctx, f.place)
}

// pause is how long to wait after so many failures in a row.
func (s *Source) pause(failures int) time.Duration {
	pause := s.o.Refresh
	if failures > 0 {
		pause = min(firstPause<<min(failures-1, 10), maxPause, s.o.Refresh)
	}
	return time.Duration(float64(pause) * (1 - jitter*s.o.Random()))
}
