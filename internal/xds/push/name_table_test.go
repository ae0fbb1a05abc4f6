package push

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestNameTable(t *testing.T) {
	list := func() []string {
		var l []string
		for i := range 100 {
			l = append(l, fmt.Sprint("name-", i))
		}
		return l
	}
	table := newNameTable()
	a, keepA := table.internNames(list())
	backwards := list()
	slices.Reverse(backwards)
	b, keepB := table.internNames(backwards)
	if !slices.IsSorted(a) {
		t.Error("a list is not sorted")
	}
	if &a[0] != &b[0] {
		t.Error("equal lists are stored twice")
	}
	other, keepOther := table.internNames(list()[1:])
	if len(other) != 99 || &a[0] == &other[0] {
		t.Error("different lists are equal")
	}
	if none, _ := table.internNames(nil); none != nil {
		t.Error("an empty list is not nil")
	}
	runtime.KeepAlive(keepA)
	runtime.KeepAlive(keepB)
	runtime.KeepAlive(keepOther)

	for deadline := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		table.mu.Lock()
		n := len(table.entries)
		table.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d unused lists are still in the table", n)
		}
		time.Sleep(time.Millisecond)
	}
}
