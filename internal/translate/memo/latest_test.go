package memo

import (
	"runtime"
	"testing"
	"time"
)

func TestLatestHoldsWeakly(t *testing.T) {
	l := NewLatest[string, [64]byte]()
	if l.Get("a") != nil {
		t.Error("an empty Latest has a value")
	}
	first, second := new([64]byte), new([64]byte)
	l.Set("a", first)
	if l.Get("a") != first {
		t.Error("the value is not found")
	}
	l.Set("a", second)
	runtime.KeepAlive(first)
	for range 3 {
		runtime.GC()
	}
	if l.Get("a") != second {
		t.Error("the newest value is not found after the older one was collected")
	}
	runtime.KeepAlive(second)
	for deadline := time.Now().Add(10 * time.Second); l.Len() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("an unreferenced value is still cached")
		}
		runtime.GC()
	}
}
