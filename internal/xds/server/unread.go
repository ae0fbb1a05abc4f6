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
// message was decoded. When the budget is used up, the connection with the most unread bytes is
// closed. If that is the connection that needs the room, it waits first. So small messages have
// precedence over large ones, and clients that stop in the middle of a message are closed first.
type unreadBudget struct {
	size int
	wait time.Duration // how long the largest connection waits for others before it is closed
	poll time.Duration

	mu      sync.Mutex
	used    int
	holders map[*link]struct{} // connections with unread bytes
	closed  uint64             // number of connections closed
}

// unread is the account of a connection in the budget. unreadBudget.mu guards it.
type unread struct {
	bytes    int // payload of DATA frames that are not decoded
	overhead int // what gRPC needs in addition for each of those frames
}

// cost returns how many bytes the connection is charged: the payload, and what gRPC needs in
// addition.
func (u unread) cost() int { return u.bytes + u.overhead }

// frameOverhead is what gRPC needs for each DATA frame in addition to its payload, which may be a
// single byte: a buffer and its place in lists.
const frameOverhead = 128

// newUnreadBudget returns a budget of size bytes for the messages that have arrived and were not
// decoded yet.
func newUnreadBudget(size int) *unreadBudget {
	return &unreadBudget{size: size, wait: 10 * time.Second, poll: 20 * time.Millisecond, holders: map[*link]struct{}{}}
}

var errUnread = errors.New("too many bytes of incomplete messages on the port")

// charge charges connection l for frames DATA frames of together bytes that begin to arrive. While
// there is no room it blocks, and so does the reading of that connection; it then closes the
// connections with more unread data than l. After b.wait, or if l is closed, it returns errUnread;
// the caller must then close l.
func (b *unreadBudget) charge(l *link, bytes, frames int) error {
	for began := (time.Time{}); ; <-time.After(b.poll) { // any credit, of any connection, may free room
		victim, ok := b.tryCharge(l, bytes, frames)
		switch {
		case l.aborted.Load():
			return errUnread
		case ok:
			return nil
		case victim != nil:
			victim.abort()
			b.creditAll(victim)
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > b.wait:
			return errUnread
		}
	}
}

// tryCharge charges l and returns true if there is room and l was not closed. Otherwise nothing is
// charged. If there is no room, victim is the connection with the most unread data, which the
// caller must close; it is already counted in b.closed. It is nil if that is l itself, with the new
// data, or l was closed.
func (b *unreadBudget) tryCharge(l *link, bytes, frames int) (victim *link, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.aborted.Load() { // its account is closed, or will be when this returns
		return nil, false
	}
	more := unread{bytes, frames * frameOverhead}
	if b.used+more.cost() <= b.size {
		l.unread.bytes += more.bytes
		l.unread.overhead += more.overhead
		b.used += more.cost()
		b.holders[l] = struct{}{}
		return nil, true
	}
	most := l.unread.cost() + more.cost()
	for other := range b.holders {
		if n := other.unread.cost(); n > most {
			victim, most = other, n
		}
	}
	if victim != nil {
		b.closed++
	}
	return victim, false
}

// credit credits bytes of a decoded message to connection l, at most as many as it was charged.
// When the connection has no unread bytes left, the overhead of its frames is credited too, because
// the frames of a message are not known.
func (b *unreadBudget) credit(l *link, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes = min(bytes, l.unread.bytes)
	l.unread.bytes -= bytes
	b.used -= bytes
	if l.unread.bytes == 0 {
		b.removeSettled(l)
	}
}

// creditAll credits all bytes of a connection that is closed or has no streams. Then gRPC holds no
// message of it.
func (b *unreadBudget) creditAll(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeSettled(l)
}

// removeSettled credits all that a connection was charged and removes it from the holders. b.mu
// must be held.
func (b *unreadBudget) removeSettled(l *link) {
	b.used -= l.unread.cost()
	l.unread = unread{}
	delete(b.holders, l)
}

// inUse returns the charged bytes, with the overhead of frames.
func (b *unreadBudget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
