package memo

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// number contains a pointer, as every cached type does: the runtime packs small values without
// pointers into one block, which lives as long as any of them.
type number struct {
	value int
	_     *int
}

func square(k int) *number { return &number{value: k * k} }

func TestConcurrentCallsComputeOnce(t *testing.T) {
	var calls int // guarded by the Table: a data race here is a failure
	table := New(func(k int) *number { calls++; return square(k) })
	var wg sync.WaitGroup
	got := make([]*number, 50)
	for i := range got {
		wg.Go(func() {
			got[i] = table.Get(7)
		})
	}
	wg.Wait()
	if calls != 1 || table.Computed() != 1 || table.Hits() != 49 {
		t.Errorf("%d calls, computed %d, hits %d; want 1, 1, 49", calls, table.Computed(), table.Hits())
	}
	for _, v := range got {
		if v != got[0] || v.value != 49 {
			t.Fatalf("outputs differ: %v", got)
		}
	}
}

func TestOnlyUnusedOutputsAreEvicted(t *testing.T) {
	table := New(square)
	held := table.Get(1)
	for k := range 100 {
		table.Get(1000 + k)
	}
	deadline := time.Now().Add(10 * time.Second)
	for table.Len() > 1 {
		if time.Now().After(deadline) {
			t.Fatalf("%d entries, want only the one in use", table.Len())
		}
		runtime.GC()
	}
	before := table.Computed()
	if again := table.Get(1); again != held || table.Computed() != before {
		t.Error("an output in use was computed again")
	}
	runtime.KeepAlive(held)
	if got := table.Get(1000).value; got != 1_000_000 || table.Computed() != before+1 {
		t.Errorf("evicted output: got %d after %d computed", got, table.Computed())
	}
}

func TestNilIsCached(t *testing.T) {
	table := New(func(int) *number { return nil })
	table.Get(1)
	if table.Get(1) != nil || table.Computed() != 1 {
		t.Errorf("computed %d times", table.Computed())
	}
}

func TestPanicIsNotCached(t *testing.T) {
	fail := true
	table := New(func(k int) *number {
		if fail {
			panic("bad")
		}
		return square(k)
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not propagate")
			}
		}()
		table.Get(2)
	}()
	fail = false
	if got := table.Get(2); got.value != 4 {
		t.Errorf("got %d", got.value)
	}
}

func TestKeyedTableBuildsOncePerKey(t *testing.T) {
	table := NewKeyed(
		func(in []byte) string { return string(in) },
		func(in []byte) *number { return &number{value: len(in)} },
	)
	first, equal, other := table.Get([]byte("abc")), table.Get([]byte("abc")), table.Get([]byte("abcd"))
	if first != equal || first.value != 3 || other.value != 4 {
		t.Errorf("got %v, %v, %v", first, equal, other)
	}
	if table.Computed() != 2 || table.Hits() != 1 {
		t.Errorf("computed %d, hits %d; want 2, 1", table.Computed(), table.Hits())
	}
	runtime.KeepAlive(first)
}

func BenchmarkHit(b *testing.B) {
	type input struct {
		a, b *int
		port uint32
		name string
	}
	table := New(func(input) *int { return new(int) })
	k := input{new(int), new(int), 80, "outbound|80||reviews.default.svc.cluster.local"}
	v := table.Get(k)
	b.ReportAllocs()
	for range b.N {
		table.Get(k)
	}
	runtime.KeepAlive(v)
}
