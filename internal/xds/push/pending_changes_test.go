package push

import (
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestPendingChangesMerge compares sets with lists of numbers.
func TestPendingChangesMerge(t *testing.T) {
	for _, c := range []struct {
		name    string
		a, b    []uint64
		want    []uint64
		missing uint64
	}{
		{"empty", nil, nil, nil, 1},
		{"second set is empty", []uint64{5}, nil, []uint64{5}, 4},
		{"both", []uint64{5, 7}, []uint64{6}, []uint64{5, 6, 7}, 8},
		{"oldest change that is retained", []uint64{1}, []uint64{256}, []uint64{1, 256}, 257},
		{"evicted", []uint64{1, 2}, []uint64{257}, []uint64{2, 257}, 1},
		{"older set second", []uint64{1000}, []uint64{2, 900}, []uint64{900, 1000}, 2},
		{"far apart", []uint64{3}, []uint64{100_000}, []uint64{100_000}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a, b pendingChanges
			for _, n := range c.a {
				a.merge(pendingChange(n))
			}
			for _, n := range c.b {
				b.merge(pendingChange(n))
			}
			a.merge(b)
			got := slices.Sorted(a.numbers())
			if !slices.Equal(got, c.want) || a.has(c.missing) || a.isEmpty() != (len(c.want) == 0) {
				t.Errorf("changes = %v, want %v without %d", got, c.want, c.missing)
			}
			for _, n := range c.want {
				if !a.has(n) {
					t.Errorf("%d is missing", n)
				}
			}
		})
	}
}

// answeredLog returns a log of one change, and the set with it.
func answeredLog() (*changeLog, pendingChanges) {
	l := &changeLog{}
	l.ring[1].Store(&change{number: 1, published: time.Unix(1, 0)})
	return l, pendingChange(1)
}

// TestAnswerAllocatesNothing checks that recording an acknowledgement in the change log allocates
// nothing.
func TestAnswerAllocatesNothing(t *testing.T) {
	l, changes := answeredLog()
	proxy, now := &mesh.Proxy{}, time.Unix(2, 0)
	var a changeAnswer
	n := testing.AllocsPerRun(100, func() {
		a.await(changes, l)
		answered, as := a.finish()
		l.addAnswer(answered, proxy, as, now)
	})
	if n != 0 {
		t.Errorf("an answer makes %v allocations, want 0", n)
	}
}

// BenchmarkAnswer measures how long it takes to record the acknowledgement of a change by one
// proxy.
func BenchmarkAnswer(b *testing.B) {
	l, changes := answeredLog()
	proxy, now := &mesh.Proxy{}, time.Unix(2, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var a changeAnswer
		for pb.Next() {
			a.await(changes, l)
			answered, as := a.finish()
			l.addAnswer(answered, proxy, as, now)
		}
	})
}
