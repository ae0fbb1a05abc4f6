package mesh

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

const (
	// loadTick is how often a load looks how many requests are due.
	loadTick = 5 * time.Millisecond
	// freshEvery makes one request in so many use a connection of its own: what a change does to connections that are
	// open differs from what it does to new ones.
	freshEvery = 5
	// failuresKept bounds how many failures a Tally describes.
	failuresKept = 5
)

// Load is requests for reviews at a steady rate, whatever becomes of the earlier ones.
type Load struct {
	caller *Caller
	url    string
	rate   int
	begin  time.Time
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	tally Tally
}

// Tally counts what a load has seen.
type Tally struct {
	Sent, Failed int
	Elapsed      time.Duration
	Failures     []string // the first few, with their time since the load began
	Versions     map[string]int
}

// Rate is how many requests were sent per second.
func (t Tally) Rate() float64 {
	if t.Elapsed <= 0 {
		return 0
	}
	return float64(t.Sent) / t.Elapsed.Seconds()
}

// StartLoad sends rate requests per second for url, which must be one for reviews, until Stop.
func StartLoad(from *netns.Node, url string, rate int) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{
		caller: NewCaller(from), url: url, rate: rate, begin: time.Now(), cancel: cancel,
		done: make(chan struct{}), tally: Tally{Versions: map[string]int{}},
	}
	go l.run(ctx)
	return l
}

// Stop ends the load, waits for the answers that are still out, and returns what it has seen.
func (l *Load) Stop() Tally {
	l.cancel()
	<-l.done
	return l.Tally()
}

// Tally returns what it has seen so far.
func (l *Load) Tally() Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally
	t.Failures = append([]string(nil), t.Failures...)
	t.Versions = map[string]int{}
	for version, n := range l.tally.Versions {
		t.Versions[version] = n
	}
	return t
}

func (l *Load) run(ctx context.Context) {
	defer close(l.done)
	defer l.caller.Close()
	var out sync.WaitGroup
	defer out.Wait()
	ticker := time.NewTicker(loadTick)
	defer ticker.Stop()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for ; sent < int(time.Since(l.begin).Seconds()*float64(l.rate)); sent++ {
			fresh := sent%freshEvery == 0
			// Not ctx: what has been sent is waited for.
			out.Go(func() { l.count(l.caller.get(context.Background(), l.url, fresh, nil)) })
		}
		l.mu.Lock()
		l.tally.Sent, l.tally.Elapsed = sent, time.Since(l.begin)
		l.mu.Unlock()
	}
}

func (l *Load) count(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := a.Complete(); err != nil {
		l.tally.Failed++
		if len(l.tally.Failures) < failuresKept {
			at := (time.Since(l.begin) - a.Took).Round(time.Millisecond)
			l.tally.Failures = append(l.tally.Failures, fmt.Sprintf("after %s: %v", at, err))
		}
		return
	}
	l.tally.Versions[a.Version()]++
}
