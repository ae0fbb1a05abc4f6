package memo

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// number has a pointer inside, as all that is remembered in earnest has: the runtime packs small values without one
// together into one block, which lives as long as any of them.
type number struct {
	value int
	_     *int
}

func square(k int) *number { return &number{value: k * k} }

func TestManyAskOneComputes(t *testing.T) {
	table := New[int, number]()
	var calls int // guarded by the Table: a data race here is a failure
	var wg sync.WaitGroup
	got := make([]*number, 50)
	for i := range got {
		wg.Go(func() {
			got[i] = table.Do(7, func(k int) *number { calls++; return square(k) })
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

func TestWhatIsInUseStaysAndTheRestGoes(t *testing.T) {
	table := New[int, number]()
	held := table.Do(1, square)
	for k := range 100 {
		table.Do(1000+k, square)
	}
	deadline := time.Now().Add(10 * time.Second)
	for table.Len() > 1 {
		if time.Now().After(deadline) {
			t.Fatalf("%d outputs are remembered, want only the one in use", table.Len())
		}
		runtime.GC()
	}
	before := table.Computed()
	if again := table.Do(1, square); again != held || table.Computed() != before {
		t.Error("an output in use was computed again")
	}
	runtime.KeepAlive(held)
	if got := table.Do(1000, square).value; got != 1_000_000 || table.Computed() != before+1 {
		t.Errorf("what was forgotten: got %d after %d computed", got, table.Computed())
	}
}

func TestNilIsRemembered(t *testing.T) {
	table := New[int, number]()
	none := func(int) *number { return nil }
	table.Do(1, none)
	if table.Do(1, none) != nil || table.Computed() != 1 {
		t.Errorf("computed %d times", table.Computed())
	}
}

func TestPanicIsNotRemembered(t *testing.T) {
	table := New[int, number]()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not pass through")
			}
		}()
		table.Do(2, func(int) *number { panic("bad") })
	}()
	if got := table.Do(2, square); got.value != 4 {
		t.Errorf("got %d", got.value)
	}
}

func BenchmarkHit(b *testing.B) {
	type input struct {
		a, b *int
		port uint32
		name string
	}
	table := New[input, int]()
	k := input{new(int), new(int), 80, "outbound|80||reviews.default.svc.cluster.local"}
	v := table.Do(k, func(input) *int { return new(int) })
	b.ReportAllocs()
	for range b.N {
		table.Do(k, func(input) *int { return new(int) })
	}
	runtime.KeepAlive(v)
}
