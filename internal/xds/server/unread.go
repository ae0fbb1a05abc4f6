package server

import (
	"errors"
	"sync"
	"time"
)

// unreadBudget bounds the bytes that gRPC holds of messages that have not arrived in full or are
// not decoded yet, over all connections of a port. gRPC itself bounds them only for each stream, by
// the largest message. A thousand streams that stop in the middle of a large message would hold
// gigabytes.
//
// Each DATA frame is charged to its connection when its header arrives, and credited when its
// message was decoded. While there is no room, the reading of the connection blocks, and its client
// is held up by flow control. unread_queue.go decides which is served first. While connections
// wait, those whose clients have stalled in the middle of a message are closed. Proxies that
// reconnect at once, with more state than the budget, wait for each other and are all served.
type unreadBudget struct {
	size int
	wait time.Duration // how long a connection waits for room before it is closed
	poll time.Duration // how often connections to close are looked for while others wait

	mu         sync.Mutex
	used       int
	holders    map[*link]struct{} // connections with unread bytes
	waiting    []*roomWaiter      // in order of arrival
	finisher   *link              // the connection that may use half of the budget alone, or nil
	progressed time.Time          // when the finisher was chosen or last granted room
	searched   time.Time          // when connections to close were last looked for
	closed     uint64             // number of connections closed
}

// unread is the account of a connection in the budget. unreadBudget.mu guards it.
type unread struct {
	bytes    int // payload of DATA frames that are not decoded
	overhead int // what gRPC needs in addition for each of those frames
	arrived  int // the part of bytes whose messages have arrived in full
	// clientTime is how long the client was waited for, since the account was empty, before charges
	// for which there was no room at once.
	clientTime time.Duration
}

// cost returns how many bytes the connection is charged: the payload, and what gRPC needs in
// addition.
func (u unread) cost() int { return u.bytes + u.overhead }

// unfinished returns the bytes of messages that have not arrived in full.
func (u unread) unfinished() int { return u.bytes - u.arrived }

const (
	// frameOverhead is what gRPC needs for each DATA frame in addition to its payload, which may be
	// a single byte: a buffer and its place in lists.
	frameOverhead = 128
	// stallAfter is how long a client may send nothing in the middle of a message, and slowAfter
	// how long a connection may wait for its client in all until its messages have arrived, before
	// the connection may be closed to make room.
	stallAfter = 3 * time.Second
	slowAfter  = 6 * time.Second
	// smallPatience is how long small accounts wait before the connection with the most unread data
	// is closed for them.
	smallPatience = 3 * time.Second
)

// newUnreadBudget returns a budget of size bytes for the messages that have arrived and were not
// decoded yet.
func newUnreadBudget(size int) *unreadBudget {
	return &unreadBudget{size: size, wait: 10 * time.Second, poll: 100 * time.Millisecond, holders: map[*link]struct{}{}}
}

var errUnread = errors.New("too many bytes of incomplete messages on the port")

// charge charges connection l for frames DATA frames of together bytes that begin to arrive; waited
// is how long the read that returned them waited for the client. While there is no room it blocks,
// and with it the reading of the connection, and closes others to make room (makeRoom). After
// b.wait, or if l is closed, it returns errUnread; the caller must then close l.
func (b *unreadBudget) charge(l *link, bytes, frames int, waited time.Duration) error {
	w := b.tryCharge(l, bytes, frames, waited)
	if w == nil {
		return nil
	}
	tick := time.NewTicker(b.poll)
	defer tick.Stop()
	for deadline := time.Now().Add(b.wait); ; {
		select {
		case <-w.granted:
			return nil
		case now := <-tick.C:
			if l.aborted.Load() || now.After(deadline) {
				b.removeWaiter(w)
				return errUnread
			}
			b.makeRoom(now)
		}
	}
}

// tryCharge charges l and returns nil if there is room for it now. Otherwise nothing is charged,
// and it returns a new waiter in the queue.
func (b *unreadBudget) tryCharge(l *link, bytes, frames int, waited time.Duration) *roomWaiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	overhead := frames * frameOverhead
	if len(b.waiting) == 0 && l != b.finisher && !l.aborted.Load() && b.fitsOthers(bytes+overhead) {
		b.add(l, bytes, overhead) // almost always, so without a waiter
		return nil
	}
	now := time.Now()
	if since, ok := l.isReceiving(); ok && l.unread.cost() > 0 {
		l.unread.clientTime += min(waited, now.Sub(since))
	}
	w := &roomWaiter{link: l, bytes: bytes, overhead: overhead, since: now, granted: make(chan struct{}, 1)}
	b.waiting = append(b.waiting, w)
	b.grantRoom()
	if len(w.granted) > 0 {
		return nil
	}
	return w
}

// add charges a connection. b.mu must be held.
func (b *unreadBudget) add(l *link, bytes, overhead int) {
	l.unread.bytes += bytes
	l.unread.overhead += overhead
	b.used += bytes + overhead
	b.holders[l] = struct{}{}
	if l == b.finisher {
		b.progressed = time.Now()
	}
}

// markArrived records that a message of that many bytes has arrived in full on connection l: until
// it is credited, it is the server that is waited for.
func (b *unreadBudget) markArrived(l *link, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.unread.arrived = min(l.unread.arrived+bytes, l.unread.bytes)
}

// credit credits bytes of a decoded message to connection l, at most as many as it was charged, and
// grants the room to waiting connections. When the connection has no unread bytes left, the
// overhead of its frames is credited too, because the frames of a message are not known.
func (b *unreadBudget) credit(l *link, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes = min(bytes, l.unread.bytes)
	l.unread.bytes -= bytes
	l.unread.arrived = max(0, l.unread.arrived-bytes)
	b.used -= bytes
	if l.unread.bytes == 0 {
		b.removeSettled(l)
	}
	b.grantRoom()
}

// creditAll credits all bytes of a connection that is closed or has no streams, and grants the room
// to waiting connections. gRPC then holds no message of it.
func (b *unreadBudget) creditAll(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeSettled(l)
	b.grantRoom()
}

// removeSettled credits all that a connection was charged, removes it from the holders, and ends
// its turn as the finisher. b.mu must be held.
func (b *unreadBudget) removeSettled(l *link) {
	b.used -= l.unread.cost()
	l.unread = unread{}
	delete(b.holders, l)
	if b.finisher == l {
		b.finisher = nil
	}
}

// makeRoom closes the connections that findVictims returns. It does nothing if any waiter called it
// less than b.poll before.
func (b *unreadBudget) makeRoom(now time.Time) {
	b.mu.Lock()
	if now.Sub(b.searched) < b.poll {
		b.mu.Unlock()
		return
	}
	b.searched = now
	victims := b.findVictims(now)
	for _, l := range victims {
		l.aborted.Store(true) // the next search leaves it out
	}
	b.closed += uint64(len(victims))
	b.mu.Unlock()
	for _, l := range victims {
		l.abort()
		b.creditAll(l)
	}
}

// inUse returns the charged bytes, with the overhead of frames.
func (b *unreadBudget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
