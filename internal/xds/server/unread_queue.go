package server

import (
	"slices"
	"time"
)

// roomWaiter is a charge that waits for room in the unreadBudget.
type roomWaiter struct {
	link            *link
	bytes, overhead int
	since           time.Time
	granted         chan struct{} // receives when the charge was made
}

// cost returns how many bytes the connection will be charged in all once the room is granted.
func (w *roomWaiter) cost() int { return w.link.unread.cost() + w.bytes + w.overhead }

// smallAccount is the unread data of a connection up to which its charges have precedence: about
// that of one DATA frame of usual length, which most requests fit in.
const smallAccount = 20 << 10

// isSmall reports whether the connection has little unread data even with the waiting charge.
func (w *roomWaiter) isSmall() bool { return w.cost() <= smallAccount }

// grantRoom makes the charges for which there is room, in order of precedence, and wakes their
// waiters. b.mu must be held.
func (b *unreadBudget) grantRoom() {
	for {
		w := b.nextWaiter()
		if w == nil {
			return
		}
		b.dequeue(w)
		b.add(w.link, w.bytes, w.overhead)
		w.granted <- struct{}{}
	}
}

// nextWaiter returns the waiter that is served next, or nil if none waits or there is no room.
//
// Half of the budget is for the finisher, which can therefore always receive the largest message in
// full: without it, the beginnings of messages could use up the budget and wait for each other. The
// other half is for all others, a quarter of it for small accounts alone.
//
// Small accounts come first, so that large messages do not delay small requests, then the finisher,
// then the one with the most unread data, because it is the nearest to a message in full, which
// frees the room. If there is no room for it and no finisher, it becomes the finisher. b.mu must be
// held.
func (b *unreadBudget) nextWaiter() *roomWaiter {
	small, finishing, largest := b.headsOfQueue()
	switch {
	case small != nil && b.usedByOthers()+small.bytes+small.overhead <= b.size/2:
		return small
	case finishing != nil && finishing.cost() <= b.size/2:
		return finishing
	case largest == nil:
		return nil
	case b.fitsOthers(largest.bytes + largest.overhead):
		return largest
	case b.finisher == nil:
		b.finisher, b.progressed = largest.link, time.Now()
		if largest.cost() <= b.size/2 {
			return largest
		}
	}
	return nil
}

// usedByOthers returns the bytes that are charged to other connections than the finisher. b.mu must
// be held.
func (b *unreadBudget) usedByOthers() int {
	if b.finisher == nil {
		return b.used
	}
	return b.used - b.finisher.unread.cost()
}

// fitsOthers reports whether there is room for more bytes of a connection of any size that is not
// the finisher. b.mu must be held.
func (b *unreadBudget) fitsOthers(more int) bool { return b.usedByOthers()+more <= b.size*3/8 }

// headsOfQueue returns the first waiter with a small account, that of the finisher, and the one
// with the most unread data apart from it; each may be nil, and the first and last may be the same.
// Waiters whose connections are closed are left out. b.mu must be held.
func (b *unreadBudget) headsOfQueue() (small, finishing, largest *roomWaiter) {
	for _, w := range b.waiting {
		switch {
		case w.link.aborted.Load():
			continue
		case w.link == b.finisher:
			finishing = w
			continue
		case small == nil && w.isSmall():
			small = w
		}
		if largest == nil || w.cost() > largest.cost() {
			largest = w
		}
	}
	return small, finishing, largest
}

// removeWaiter removes a waiter that stops waiting, and grants room to the waiters behind it. If its
// charge has just been granted, the charge stays until the connection is closed.
func (b *unreadBudget) removeWaiter(w *roomWaiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dequeue(w)
	b.grantRoom()
}

// dequeue removes a waiter from the queue if it is in it. b.mu must be held.
func (b *unreadBudget) dequeue(w *roomWaiter) {
	if at := slices.Index(b.waiting, w); at >= 0 {
		b.waiting = slices.Delete(b.waiting, at, at+1)
	}
}

// findVictims returns the connections to close while others wait:
//
//   - those with a stalled client;
//   - a finisher that has used up its half of the budget, with messages on several streams;
//   - that with the most data of unfinished messages, if a small account has waited for
//     smallPatience. The server may not have had the time to receive it.
//
// b.mu must be held.
func (b *unreadBudget) findVictims(now time.Time) (list []*link) {
	var largest *link
	for l := range b.holders {
		if l.aborted.Load() {
			continue
		}
		if l.isStalled(now) {
			list = append(list, l)
		}
		if l.unread.unfinished() > 0 && (largest == nil || l.unread.unfinished() > largest.unread.unfinished()) {
			largest = l
		}
	}
	small, finishing, _ := b.headsOfQueue()
	if finishing != nil && b.finisher.unread.arrived == 0 && now.Sub(b.progressed) > stallAfter {
		list = append(list, b.finisher)
	}
	if len(list) == 0 && largest != nil && small != nil && now.Sub(small.since) > smallPatience {
		list = append(list, largest)
	}
	return list
}

// isStalled reports whether a message has not arrived in full because the client sends nothing for
// stallAfter while it is received, or has been waited for slowAfter in all. It also returns true if
// no stream receives the data for slowAfter: then the rest of the message cannot arrive. It is false
// while an earlier message is decoded, because gRPC then holds the client up. unreadBudget.mu must
// be held.
func (l *link) isStalled(now time.Time) bool {
	since, receiving := l.isReceiving()
	reading := l.readingSince.Load()
	switch {
	case l.unread.unfinished() == 0 || l.unread.arrived > 0:
		return false
	case !receiving:
		return now.Sub(since) > slowAfter
	case reading == 0:
		return false // the server is not waiting for the client
	}
	if began := time.Unix(0, reading); began.After(since) {
		since = began
	}
	waited := now.Sub(since)
	return waited > stallAfter || l.unread.clientTime+waited > slowAfter
}
