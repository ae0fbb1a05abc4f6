package consul

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/base/retry"
)

const (
	// maxWait is the longest time that a query blocks. Consul adds up to 1/16 to it.
	maxWait = 5 * time.Minute
	// answerTime is the time that an answer may take beyond the wait.
	answerTime = 30 * time.Second
	// minPause is the minimum time between two queries of the same service, so that a service that
	// changes all the time costs at most ten queries a second.
	minPause = 100 * time.Millisecond
	// firstBackoff and maxBackoff are the pauses after the first and after many failures.
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// serverService is the service that the servers register for themselves.
const serverService = "consul"

// result is the result of one query.
type result struct {
	name      string // of the service; "" for the list of all services
	services  map[string][]string
	instances []Instance
	serverIDs []string // if name is serverService
	meta      api.QueryMeta
	err       error
	// generation is the generation of the servers at the time of the query.
	generation uint64
	// regressed is set if the index is lower than that of the answer before.
	regressed bool
	// early is set if the index is equal to the index that the query waited to exceed, although its
	// wait was not over. Consul ends queries in this way when a snapshot is restored.
	early bool
	// verified is set if the identity of the servers was checked after the answer.
	verified bool
	reply    chan decision
}

// decision is the reply of the Source's goroutine to a result.
type decision uint8

const (
	proceed decision = iota // wait for the next change
	verify                  // check the identity of the servers, and send the same result again
	restart                 // discard the result, and query without an index
	stop                    // end the watch
)

// watcher runs the blocking queries of one service, or of the list of services if name is "".
type watcher struct {
	*run
	name string
	// interrupt ends the running query, if there is one, so that it begins again without an index.
	interrupt *atomic.Pointer[context.CancelFunc]
}

// watch queries and submits the results until the context ends or the decision is to stop. After a
// failure it waits with a growing backoff. Indexes are compared only within a generation.
// Interrupted queries begin again without an index.
func (w watcher) watch(ctx context.Context) {
	var index, last, lastGeneration uint64
	backoff := retry.NewBackoff(firstBackoff, maxBackoff)
	for ctx.Err() == nil {
		began := time.Now()
		session, generation := w.session()
		if generation != lastGeneration {
			index, last, lastGeneration = 0, 0, generation // indexes of other servers cannot be compared
		}
		running, cancel := context.WithCancel(session)
		w.interrupt.Store(&cancel)
		r, err := w.query(ctx, running, index)
		interrupted := running.Err() != nil
		cancel()
		if err != nil && interrupted {
			index = 0 // by a new token, a new generation, or handleList
			continue
		}
		r.generation, r.err = generation, err
		if err == nil && !r.streamed() {
			r.regressed, last = r.meta.LastIndex < last, r.meta.LastIndex
		}
		d := w.submit(ctx, r)
		if d == verify {
			if d, err = w.verifyServers(ctx, r); err != nil {
				r.err = err
				d = w.submit(ctx, r)
			}
		}
		pause := minPause - time.Since(began)
		switch {
		case d == stop:
			return
		case r.err != nil:
			// The servers may be others afterwards, which an index of theirs would not show.
			index = 0
			pause = jitter(backoff.NextBackOff())
		case d == restart:
			index, last = 0, 0
		default:
			backoff.Reset()
			index, pause = w.next(r, index, began)
		}
		w.sleep(ctx, pause)
	}
}

// next returns the index that the query after the answer r waits to exceed, 0 for a direct query,
// and the pause before it. The query of r waited to exceed asked and began at began.
//
// After a pause of the list, and after an early answer, the query is direct, and its index is
// compared with the one before: if a snapshot was restored in the interval, Consul would wait for
// an index from the future. The list of a peer's services is always read directly, because Consul
// does not end blocking queries of a peering when the list changes.
func (w watcher) next(r *result, asked uint64, began time.Time) (index uint64, pause time.Duration) {
	pause = minPause - time.Since(began)
	if w.name == "" && w.part.peer != "" {
		return 0, w.settings.Interval - time.Since(began)
	}
	if w.name == "" {
		pause = 0 // after a direct query
		if asked > 0 {
			pause = w.settings.Interval - time.Since(began)
		}
	}
	if r.early || w.name == "" && pause > 0 {
		return 0, pause
	}
	return r.meta.LastIndex, pause
}

// jitter returns a random duration between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d. It returns early if the context ends, or if a new token or a new generation
// makes an immediate query useful. A negative or zero d returns at once.
func (w watcher) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	session, _ := w.session()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-session.Done():
	case <-ctx.Done():
	}
}

// submit passes a result to the Source's goroutine and returns its decision, or stop if ctx ends.
func (w watcher) submit(ctx context.Context, r *result) decision {
	r.reply = make(chan decision, 1)
	select {
	case w.results <- r:
	case <-ctx.Done():
		return stop
	}
	select {
	case d := <-r.reply:
		return d
	case <-ctx.Done():
		return stop
	}
}

// query runs one query and returns its result, which has the name even if there is an error. The
// query blocks until something changes after index; with index 0 it returns the current state at
// once. Before, it waits for the rate limit, and as a query of a service for a slot. The end of
// session ends it early with an error. With more services than slots, a query of one blocks for
// Settings.Interval at most.
func (w watcher) query(ctx, session context.Context, index uint64) (*result, error) {
	r := &result{name: w.name}
	wait := maxWait
	if w.name != "" && w.name != serverService {
		select {
		case w.slots <- struct{}{}:
			defer func() { <-w.slots }()
		case <-session.Done():
			return r, session.Err()
		case <-ctx.Done():
			return r, ctx.Err()
		}
		if w.watches.Load() > int64(cap(w.slots)) {
			wait = w.settings.Interval // the queries of all services take turns
		}
	}
	if err := w.limiter.Wait(session); err != nil {
		return r, err
	}
	err := w.call(session, r, index, wait)
	return r, err
}

// call sends the query, which the server may hold for wait, and stores the answer in r. With index
// 0, after a failure or a restart, it requires a consistent answer: a new leader may lack entries
// of its log. It returns an error if the answer fails, is not Consul's or is not there answerTime
// after the wait. It counts the error unless session has ended.
func (w watcher) call(session context.Context, r *result, index uint64, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(session, wait+wait/16+answerTime)
	defer cancel()
	o := (&api.QueryOptions{
		WaitIndex: index, WaitTime: wait, RequireConsistent: index == 0, Token: w.token(),
	}).WithContext(ctx)
	w.metrics.Queries.Inc()
	began := time.Now()
	var meta *api.QueryMeta
	var err error
	switch {
	case r.name == "" && w.part.peer != "":
		meta, err = w.readPeering(ctx, r, o)
	case r.name == "":
		r.services, meta, err = w.client.Catalog().Services(o)
	default:
		if r.name != serverService {
			o.Peer = w.part.peer
		}
		var entries []*api.ServiceEntry
		if entries, meta, err = w.client.Health().Service(r.name, "", false, o); err == nil {
			r.instances = parseInstances(entries)
			if r.name == serverService {
				r.serverIDs = serverIDs(entries)
			}
		}
	}
	if err == nil && meta.LastIndex == 0 {
		err = errors.New("the answer has no X-Consul-Index, so it is not Consul's")
	}
	if err != nil {
		if session.Err() == nil {
			w.metrics.Failures.WithLabelValues(string(classify(err))).Inc()
		}
		return err
	}
	r.meta = *meta
	r.early = index > 0 && meta.LastIndex == index && time.Since(began) < wait && !r.streamed()
	return nil
}

// streamed reports whether an agent answered from its own copy of the servers' data. Such an answer
// does not show whether it is filtered, and its index cannot be compared with others.
func (r *result) streamed() bool { return r.meta.QueryBackend == api.QueryBackendStreaming }

// verifyServers queries the servers and then the service again, both directly, and submits both
// results. It returns the decision about the second answer, which replaces the content of r. If the
// decision about the servers is not proceed, it returns that at once. The error names the query
// that failed. If the session has ended it returns restart without an error.
func (w watcher) verifyServers(ctx context.Context, r *result) (decision, error) {
	w.verifying.Lock()
	defer w.verifying.Unlock()
	session, generation := w.session()
	servers := &result{name: serverService, generation: generation}
	if err := w.call(session, servers, 0, answerTime); err != nil {
		if session.Err() != nil {
			return restart, nil
		}
		return restart, fmt.Errorf("check the identity of the servers: %w", err)
	}
	if d := w.submit(ctx, servers); d != proceed {
		return d, nil
	}
	if servers.err != nil {
		return restart, fmt.Errorf("check the identity of the servers: %w", servers.err)
	}
	before := r.meta.LastIndex
	streamed := r.streamed()
	if err := w.call(session, r, 0, answerTime); err != nil {
		if session.Err() != nil {
			return restart, nil
		}
		return restart, fmt.Errorf("read the service again: %w", err)
	}
	r.verified, r.regressed = true, !streamed && r.meta.LastIndex < before
	return w.submit(ctx, r), nil
}

// serverIDs returns an identifier of each server: its node ID and the index of its registration. A
// server whose data directory was lost has another.
func serverIDs(entries []*api.ServiceEntry) []string {
	var ids []string
	for _, e := range entries {
		if e != nil && e.Node != nil {
			ids = append(ids, fmt.Sprintf("%s@%d", e.Node.ID, e.Node.CreateIndex))
		}
	}
	return ids
}
