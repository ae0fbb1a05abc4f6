package push

import "sync/atomic"

// changeAnswer is which recorded changes a proxy has still to answer, and how it answered the last
// one. Its stream's session.mu guards all fields but counted.
type changeAnswer struct {
	// pending are the changes of which the stream has taken the resources.
	pending pendingChanges
	// sent is set if a response was sent since pending was empty, and refused if one was rejected.
	sent, refused bool
	// last is the number of the newest change that was answered.
	last uint64
	// counted is last and the outcome, while the answer is counted in the log: see countedAnswer.
	counted atomic.Uint64
}

// countedAnswer returns the value of changeAnswer.counted for an answer: the number of the change
// in the upper 56 bits, the outcome in the lowest 8.
func countedAnswer(number uint64, as outcome) uint64 { return number<<8 | uint64(as) }

// uncount removes the last answer from the log, and clears a.counted, if the answer is about one of
// the changes. It is called because the proxy is offered another part of that change, which was
// held back. It does nothing if the answer is not counted.
func (a *changeAnswer) uncount(changes pendingChanges, log *changeLog) {
	v := a.counted.Load()
	if number := v >> 8; number > 0 && changes.has(number) && a.counted.CompareAndSwap(v, 0) {
		log.removeAnswer(number, outcome(v&0xff))
	}
}

// await adds changes of an offer that the stream has taken to pending; it does nothing if there are
// none. If the last answer, already counted in the log, was about one of them, that count is
// removed (uncount). If none were pending, it clears sent and refused, unless changes contain the
// last answered change.
func (a *changeAnswer) await(changes pendingChanges, log *changeLog) {
	if changes.isEmpty() {
		return
	}
	a.uncount(changes, log)
	if a.pending.isEmpty() && !(a.last > 0 && changes.has(a.last)) {
		a.sent, a.refused = false, false
	}
	a.pending.merge(changes)
}

// finish ends the answer to the pending changes and returns them with the outcome. That is refused
// if a response was rejected, unaffected if none was sent, otherwise acknowledged. pending is empty
// afterwards. last and counted are set to the newest of the changes; the caller must add the answer
// to the log.
func (a *changeAnswer) finish() (answered pendingChanges, as outcome) {
	answered, as = a.pending, acknowledged
	switch {
	case a.refused:
		as = refused
	case !a.sent:
		as = unaffected
	}
	a.pending, a.last = pendingChanges{}, answered.newest
	a.counted.Store(countedAnswer(a.last, as))
	return answered, as
}
