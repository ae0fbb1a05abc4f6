package readapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// peerWatches follow the rollout of an object at the other replicas.
type peerWatches struct {
	watch  *rolloutWatch
	ctx    context.Context //nolint:containedctx // of the request, which the watches end with
	stop   context.CancelFunc
	group  sync.WaitGroup
	active map[string]*peerWatch // by address
}

// peerWatch follows it at one replica.
type peerWatch struct {
	stop context.CancelFunc

	mu   sync.Mutex
	last *Rollout // the newest event; nil if there is none
	// err is why there is no event, or no longer one.
	err error
}

var errNoAnswerYet = errors.New("it has not answered yet")

// newPeerWatches returns the watches of the other replicas for the request of w. It starts none:
// add does. The watches end when ctx ends or close is called. The caller must call close.
func newPeerWatches(ctx context.Context, w *rolloutWatch) *peerWatches {
	p := &peerWatches{watch: w, active: map[string]*peerWatch{}}
	p.ctx, p.stop = context.WithCancel(ctx)
	return p
}

// close ends all watches and waits for their goroutines.
func (p *peerWatches) close() {
	p.stop()
	p.group.Wait()
}

// add returns own with the progress at the other replicas added, adjusted by settle. It starts to
// follow new replicas, and stops following removed ones. Without other replicas it returns own
// itself.
func (p *peerWatches) add(own Rollout) Rollout {
	addresses := p.watch.peersOf(p.watch.request.Aggregation)
	for _, address := range addresses {
		if p.active[address] == nil {
			ctx, stop := context.WithCancel(p.ctx)
			one := &peerWatch{stop: stop, err: errNoAnswerYet}
			p.active[address] = one
			p.group.Go(func() {
				// It is logged; the replica then counts as silent.
				_ = p.watch.Recovery.Call("readapi", func() error { one.follow(ctx, p.watch, address); return nil },
					"replica", address)
			})
		}
	}
	for address, one := range p.active {
		if !slices.Contains(addresses, address) {
			one.stop()
			delete(p.active, address)
		}
	}
	if len(addresses) == 0 {
		return own
	}
	sum := own
	sum.Replicas = []ReplicaProgress{progressOf(own)}
	for _, address := range addresses {
		p.active[address].addTo(&sum, address)
	}
	return sum.settle(p.watch.request.Proxy)
}

// progressOf returns the entry of this replica in Rollout.Replicas, from its own state x.
func progressOf(x Rollout) ReplicaProgress {
	return ReplicaProgress{Replica: x.Object.Replica, State: x.State, Proxies: x.Proxies, UpToDate: x.UpToDate}
}

// addTo adds the numbers, the proxies behind and the refusals in the newest event of the replica at
// address to sum. If there is no event yet or the last attempt failed, it adds an Unanswered
// instead. It adds nothing if the selected proxy is not connected there. sum takes over the
// replica's state and reason if the state is of a lower rank.
func (o *peerWatch) addTo(sum *Rollout, address string) {
	o.mu.Lock()
	last, err := o.last, o.err
	o.mu.Unlock()
	var failed *peerError
	switch {
	case errors.As(err, &failed) && failed.status == http.StatusNotFound: // the proxy is not connected there
		return
	case err != nil:
		sum.Unanswered = append(sum.Unanswered, newUnanswered(address, err))
		return
	}
	sum.Replicas = append(sum.Replicas, progressOf(*last))
	sum.Proxies += last.Proxies
	sum.UpToDate += last.UpToDate
	sum.Behind = append(slices.Clip(sum.Behind), last.Behind...)
	sum.Refusals = append(slices.Clip(sum.Refusals), last.Refusals...)
	if rank(last.State) < rank(sum.State) {
		sum.State, sum.Reason = last.State, last.Reason
		if last.Reason != "" {
			sum.Reason = last.Object.Replica + ": " + last.Reason
		}
	}
}

// rank returns the order of a state, lowest first. A sum of replicas has the state of its part with
// the lowest rank. Refused is the lowest state and Reached the highest.
func rank(s RolloutState) int {
	return slices.Index([]RolloutState{Refused, Invalid, Waiting, Pushing, Distributing, Reached}, s)
}

// settle returns x with at most maxBehind entries in Behind. It replaces the state Reached by
// Distributing while a replica is silent, and by Waiting if proxy is set and connected to no
// replica. Replicas that refuse the caller's credentials do not count as silent.
func (x Rollout) settle(proxy string) Rollout {
	x.Behind = x.Behind[:min(len(x.Behind), maxBehind)]
	if x.State != Reached {
		return x
	}
	silent := slices.IndexFunc(x.Unanswered, func(u Unanswered) bool { return !u.Refused })
	switch {
	case silent >= 0:
		x.State, x.Reason = Distributing, fmt.Sprintf("replica %s: %s", x.Unanswered[silent].Address,
			x.Unanswered[silent].Reason)
	case proxy != "" && x.Proxies == 0:
		x.State, x.Reason = Waiting, fmt.Sprintf("no replica that answers has a proxy %q", proxy)
	}
	return x
}

// follow reads events of the replica at address until it has reached the version that w waits for,
// or ctx ends. It stores the newest event and error in o. It connects again, after maxInterval,
// when the stream ends, fails, or is silent for peerSilence.
func (o *peerWatch) follow(ctx context.Context, w *rolloutWatch, address string) {
	for ctx.Err() == nil {
		err := o.readStream(ctx, w, address)
		if err == nil {
			return
		}
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-w.Clock.After(maxInterval):
		}
	}
}

// readStream reads one stream of events from the replica at address, and stores the newest one in
// o. It returns nil after an event with the state Reached, and otherwise an error, also if the
// stream ends.
func (o *peerWatch) readStream(ctx context.Context, w *rolloutWatch, address string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(peerSilence, func() { cancel(context.DeadlineExceeded) })
	defer silence.Stop()
	r := w.request
	query := url.Values{
		"namespace": {r.Namespace}, "hash": {r.Hash}, "proxy": {r.Proxy},
		"generation": {strconv.FormatInt(r.Generation, 10)}, "deleted": {strconv.FormatBool(r.Deleted)},
	}
	path := "/objects/" + url.PathEscape(r.Kind) + "/" + url.PathEscape(r.Name) + "/rollout"
	answer, err := askPeer(ctx, http.MethodGet, address, path, query, nil, peerTimeout)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxPeerAnswer)
	for lines.Scan() {
		text, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		silence.Reset(peerSilence)
		x := new(Rollout)
		if err := json.Unmarshal([]byte(text), x); err != nil {
			return err
		}
		o.mu.Lock()
		o.last, o.err = x, nil
		o.mu.Unlock()
		if x.State == Reached {
			return nil
		}
	}
	if context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return errors.New("it has ended the stream")
}
