package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/meshpilot/meshpilot/internal/base/notify"
)

// queue collects the paths that must be read again, and the state of the session. The client's
// goroutine adds to it, and the goroutine of Watch takes from it.
type queue struct {
	mu    sync.Mutex
	paths map[string]bool
	err   error       // why the session cannot go on
	ready bool        // the client has a session and a connection
	lost  *time.Timer // fails the queue, while the client has no connection

	// timeout limits the time without a connection. lastError returns why there is none. cancel is
	// called when the session ends.
	timeout   time.Duration
	lastError func() error
	cancel    func()

	wake notify.Wake // wakes the reader after each change
}

// newQueue returns a queue of a session that has no connection yet. If it has none for timeout, it
// ends the session by calling cancel.
func newQueue(timeout time.Duration, cancel func()) *queue {
	q := &queue{paths: map[string]bool{}, wake: notify.NewWake(), timeout: timeout, cancel: cancel}
	q.setReady(false)
	return q
}

// add queues paths to read. A path that is queued already is read once.
func (q *queue) add(paths ...string) {
	q.mu.Lock()
	for _, p := range paths {
		q.paths[p] = true
	}
	q.mu.Unlock()
	q.wake.Notify()
}

// fail ends the session with err by calling cancel. Later errors are ignored.
func (q *queue) fail(err error) {
	q.mu.Lock()
	if q.err == nil {
		q.err = err
		q.cancel()
	}
	q.mu.Unlock()
	q.wake.Notify()
}

// close stops the timer of a lost connection, by recording that there is one.
func (q *queue) close() { q.setReady(true) }

// failLost ends the session because the client had no connection for too long. The servers may have
// replaced their data, so that they refuse a client that has seen later transactions: only a new
// session can connect to them. q.mu must not be held.
func (q *queue) failLost() {
	q.mu.Lock()
	lastError := q.lastError
	q.mu.Unlock()
	err := errors.New("no connection")
	if lastError != nil {
		err = cmp.Or(lastError(), err)
	}
	q.fail(fmt.Errorf("no server answered for %v: %w", q.timeout, err))
}

// setReady records whether the client has a connection, and wakes the session. Without one it
// starts the timer after which the session fails, unless that runs. A connection stops the timer.
func (q *queue) setReady(ready bool) {
	q.mu.Lock()
	q.ready = ready
	switch {
	case ready && q.lost != nil:
		q.lost.Stop()
		q.lost = nil
	case !ready && q.lost == nil:
		q.lost = time.AfterFunc(q.timeout, q.failLost)
	}
	q.mu.Unlock()
	q.wake.Notify()
}

// setLastError sets the function that returns why there is no connection.
func (q *queue) setLastError(f func() error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lastError = f
}

// isReady reports whether the client has a connection.
func (q *queue) isReady() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready
}

// drain removes and returns the queued paths, sorted. It returns nil and leaves them queued while
// the client has no connection. It returns the error that ended the session, if it has ended. It
// takes q.mu.
func (q *queue) drain() ([]string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil || !q.ready {
		return nil, q.err
	}
	list := make([]string, 0, len(q.paths))
	for p := range q.paths {
		list = append(list, p)
	}
	clear(q.paths)
	slices.Sort(list)
	return list, nil
}

// handle records an event of the client: a changed node is queued, a connection or its loss
// recorded, and an expired session or failed authentication ends the session. Other events are
// ignored. The client calls it from its own goroutine, so it must not block.
func (q *queue) handle(e zk.Event) {
	switch e.Type {
	case zk.EventSession:
		switch e.State {
		case zk.StateHasSession:
			q.setReady(true)
		case zk.StateExpired:
			q.fail(errExpired)
		case zk.StateAuthFailed:
			q.fail(errAuthentication)
		case zk.StateDisconnected:
			q.setReady(false)
		}
	case zk.EventNodeCreated, zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged:
		q.add(e.Path)
	}
}
