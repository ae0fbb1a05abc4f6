package file

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestFilesAppearInTheOrderOfTheirChanges replaces two files in turn, a hundred times a second, and
// holds each batch to a state that the directory was in: the second file is never ahead of the
// first, and at most one change behind it.
func TestFilesAppearInTheOrderOfTheirChanges(t *testing.T) {
	dir, staged := t.TempDir(), t.TempDir()
	replace := func(t testing.TB, name string, n int) {
		from := filepath.Join(staged, name)
		if err := os.WriteFile(from, []byte(rule(name, fmt.Sprintf("h%d", n))), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(from, filepath.Join(dir, name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, "a", 0)
	replace(t, "b", 0)
	f := follow(t, dir, Options{})
	rounds := longtest.Rounds(100, 300)
	writer := serving.NewGroup(t)
	writer.Go(func(t testing.TB) {
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for n := 1; n <= rounds; n++ {
			replace(t, "a", n)
			replace(t, "b", n)
			<-pause.C
		}
	})
	batches := 0
	f.until("the last change", func() bool {
		var a, b int
		if f.objects["a"] != nil && f.objects["b"] != nil {
			batches++
			fmt.Sscanf(hostOf(f.objects["a"]), "h%d", &a)
			fmt.Sscanf(hostOf(f.objects["b"]), "h%d", &b)
			if b > a || b < a-1 {
				t.Errorf("a is at change %d and b at %d: the directory never was", a, b)
			}
		}
		return a == rounds && b == rounds
	})
	writer.Wait()
	t.Logf("%d states of %d changes", batches, 2*rounds)
	if batches < 10 {
		t.Errorf("only %d batches were seen: the test is not effective", batches)
	}
}
