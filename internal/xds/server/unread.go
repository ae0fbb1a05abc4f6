package server

import (
	"errors"
	"sync"
	"time"
)

// unreadBudget bounds what gRPC holds of messages that have not arrived in full or are not decoded
// yet, over all connections of a port. gRPC itself bounds it only for each stream, by the largest
// message: a thousand streams that stop in the middle of a large message would hold gigabytes.
//
// Each DATA frame is charged to its connection when its header arrives, and credited when its
// message was decoded. When the budget is used up, the connection with the most unread bytes is
// closed, unless that is the one that asks: it waits. So small messages go before large ones, and
// clients that stop in the middle of a message are the first to go.
type unreadBudget struct {
	size int
	wait time.Duration // how long the largest waits for others before it is closed
	poll time.Duration

	mu      sync.Mutex
	used    int
	holders map[*link]struct{} // with unread bytes
	closed  uint64             // connections
}

// unread is what a connection has in the budget. unreadBudget.mu guards it.
type unread struct {
	bytes    int // of DATA frames that are not decoded
	overhead int // what gRPC needs besides for each of those frames
}

func (u unread) cost() int { return u.bytes + u.overhead }

// frameOverhead is what gRPC needs for each DATA frame besides its payload, which may be a single
// byte: a buffer and its place in lists.
const frameOverhead = 128

func newUnreadBudget(size int) *unreadBudget {
	return &unreadBudget{size: size, wait: 10 * time.Second, poll: 20 * time.Millisecond, holders: map[*link]struct{}{}}
}

var errUnread = errors.New("too many bytes of messages that do not end")

// charge accounts for DATA frames that begin to arrive on a connection. While there is no room it
// blocks, and with it the reading of that connection. The error means that the connection must be
// closed.
func (b *unreadBudget) charge(l *link, bytes, frames int) error {
	for began := (time.Time{}); ; <-time.After(b.poll) { // room comes with any credit, of any connection
		victim, ok := b.tryCharge(l, bytes, frames)
		switch {
		case l.aborted.Load():
			return errUnread
		case ok:
			return nil
		case victim != nil:
			victim.abort()
			b.forget(victim)
		case began.IsZero():
			began = time.Now()
		case time.Since(began) > b.wait:
			return errUnread
		}
	}
}

// tryCharge charges l if there is room, and l was not closed. If there is no room it returns the
// connection that has to make room; nil if that is l itself.
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

// credit accounts for a message that was decoded. When nothing of the connection is unread any
// more, the overhead of its frames is credited too: which frames a message came in is not known.
func (b *unreadBudget) credit(l *link, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bytes = min(bytes, l.unread.bytes)
	l.unread.bytes -= bytes
	b.used -= bytes
	if l.unread.bytes == 0 {
		b.settle(l)
	}
}

// forget credits all of a connection: it is closed, or has no streams, and then gRPC holds nothing
// of it.
func (b *unreadBudget) forget(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle(l)
}

// settle takes a connection off the books. b.mu is held.
func (b *unreadBudget) settle(l *link) {
	b.used -= l.unread.cost()
	l.unread = unread{}
	delete(b.holders, l)
}

// inUse returns the bytes that are charged.
func (b *unreadBudget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
