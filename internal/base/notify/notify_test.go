package notify

import (
	"sync"
	"testing"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWakeRemembersOneNotification(t *testing.T) {
	w := NewWake()
	if isClosed(w.C()) {
		t.Fatal("a new Wake has a notification")
	}
	w.Notify()
	w.Notify()
	if !isClosed(w.C()) {
		t.Error("the notification is lost")
	}
	if isClosed(w.C()) {
		t.Error("two notifications are received, want one")
	}
}

func TestBroadcastNotifiesAllReceivers(t *testing.T) {
	var b Broadcast
	b.Notify() // without a waiter
	before := []<-chan struct{}{b.Changed(), b.Changed()}
	for _, c := range before {
		if isClosed(c) {
			t.Fatal("a notification from before Changed is received")
		}
	}
	b.Notify()
	for _, c := range before {
		if !isClosed(c) {
			t.Error("a receiver is not notified")
		}
	}
	if isClosed(b.Changed()) {
		t.Error("a later receiver is notified")
	}
}

// TestBroadcastLosesNothing: a writer changes a number, and readers wait until they have seen the
// last value. It hangs if a notification is lost.
func TestBroadcastLosesNothing(t *testing.T) {
	const last = 1000
	var (
		b  Broadcast
		mu sync.Mutex
		n  int
	)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				changed := b.Changed()
				mu.Lock()
				now := n
				mu.Unlock()
				if now == last {
					return
				}
				<-changed
			}
		})
	}
	for range last {
		mu.Lock()
		n++
		mu.Unlock()
		b.Notify()
	}
	readers.Wait()
}
