// Package notify has the two ways in which one goroutine informs others that something changed,
// without a value.
//
// A [Wake] is for one receiver: it remembers at most one notification, so that a receiver that is
// busy runs once more afterwards, however often it was notified in the interval. A [Broadcast] is
// for any number of receivers: each takes a channel that is closed at the next notification.
//
// Invariants: Notify never blocks, and no notification is lost between two receives of a Wake or
// between [Broadcast.Changed] and the closing of the channel that it returned. A receiver of a
// Broadcast must therefore call Changed before it reads the state that it waits for.
package notify
