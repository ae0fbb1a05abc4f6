package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
)

// Lane is requests of one kind to one host.
type Lane struct {
	Name string
	Kind echo.Kind
	// Rate is requests a second, shared by the workers; each has connections of its own, and sends
	// one request at a time.
	Rate, Workers int
	// Caller makes the caller of a worker.
	Caller func() echo.Caller
	// Timeout bounds a request. It is lost then.
	Timeout time.Duration
}

// Load is requests on all lanes until Stop.
type Load struct {
	begin   time.Time
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu     sync.Mutex
	event  string
	tally  Tally
	newest map[string]Seen
	watch  chan struct{} // closed and replaced when something new was seen
}

// Seen is a reply and when its request was sent.
type Seen struct {
	echo.Reply
	Sent time.Time
}

// Start starts all lanes.
func Start(lanes []Lane) *Load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{
		begin: time.Now(), cancel: cancel, newest: map[string]Seen{}, watch: make(chan struct{}),
		tally: Tally{Cells: map[Cell]Count{}},
	}
	for _, lane := range lanes {
		for i := range lane.Workers {
			l.workers.Go(func() { l.runWorker(ctx, lane, i) })
		}
	}
	return l
}

// Stop ends the load, waits for pending replies, and returns the Tally.
func (l *Load) Stop() Tally {
	l.cancel()
	l.workers.Wait()
	return l.Tally()
}

// During names the current event; requests that end from now on are counted for it.
func (l *Load) During(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.event = event
}

// Tally returns the results so far.
func (l *Load) Tally() Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally.cloneTally()
	t.Elapsed = time.Since(l.begin)
	return t
}

// Await waits until the newest replies, by lane, are as a check wants them; the error is the
// check's last.
func (l *Load) Await(ctx context.Context, check func(newest map[string]Seen) error) error {
	for {
		l.mu.Lock()
		err := check(l.newest)
		changed := l.watch
		l.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}

// runWorker is one worker.
func (l *Load) runWorker(ctx context.Context, lane Lane, worker int) {
	c := lane.Caller()
	defer c.Close()
	every := time.Second * time.Duration(lane.Workers) / time.Duration(lane.Rate)
	// Spread out, so that the lane as a whole is steady.
	due := time.Now().Add(every * time.Duration(worker) / time.Duration(lane.Workers))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		l.sendRequest(c, lane, fmt.Sprintf("%s/%d/%d", lane.Name, worker, n))
		// A late worker catches up a little, but does not burst after a pause.
		if due = due.Add(every); time.Since(due) > every {
			due = time.Now()
		}
		timer.Reset(time.Until(due))
	}
}

// sendRequest sends one request and counts it. It does not end with the load: pending replies are
// awaited.
func (l *Load) sendRequest(c echo.Caller, lane Lane, id string) {
	id = plainText(id)
	ctx, cancel := context.WithTimeout(context.Background(), lane.Timeout)
	defer cancel()
	sent := time.Now()
	r, err := c.Call(ctx, id)
	took := time.Since(sent)

	l.mu.Lock()
	defer l.mu.Unlock()
	cell := Cell{Event: l.event, Lane: lane.Name, Kind: lane.Kind}
	count := l.tally.Cells[cell]
	count.Sent++
	count.Slowest = max(count.Slowest, took)
	if err != nil {
		count.Failed++
		l.tally.addFailure(Failure{Cell: cell, ID: id, At: sent, Took: took, Err: err})
	} else {
		l.newest[lane.Name] = Seen{Reply: r, Sent: sent}
		close(l.watch)
		l.watch = make(chan struct{})
	}
	l.tally.Cells[cell] = count
}
