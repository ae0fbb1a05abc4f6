package notify

import "sync"

// Wake wakes one goroutine. Use NewWake to create it.
type Wake struct{ c chan struct{} }

// NewWake returns a Wake without a pending notification.
func NewWake() Wake { return Wake{c: make(chan struct{}, 1)} }

// Notify makes the next receive from C succeed. It has no further effect until that receive, and
// never blocks.
func (w Wake) Notify() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// C returns the channel on which a pending notification is received.
func (w Wake) C() <-chan struct{} { return w.c }

// Broadcast notifies all goroutines that wait for it. The zero value is ready for use. It must not
// be copied after its first use.
type Broadcast struct {
	mu      sync.Mutex
	changed chan struct{} // nil if no goroutine has called Changed since the last Notify
}

// Changed returns a channel that is closed by the next Notify. Calls before that return the same
// channel.
func (b *Broadcast) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// Notify closes the channel that Changed has returned since the last Notify, if any.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}
