package watch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTimeout bounds every wait, on a busy machine.
const patience = 10 * time.Second

// watched runs File until the test ends and returns the contents of its calls.
func watched(t *testing.T, path string, o Options) <-chan string {
	t.Helper()
	if o.Settle == 0 {
		o.Settle = 5 * time.Millisecond
	}
	calls := make(chan string, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		File(ctx, path, o, func(content []byte) { calls <- string(content) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return calls
}

// expect waits for a call with a content. Calls with one of the contents in between are ignored,
// because a file may be seen in any intermediate state.
func expect(t *testing.T, calls <-chan string, want string, between ...string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case got := <-calls:
			if got == want {
				return
			}
			if !slices.Contains(between, got) {
				t.Fatalf("called with %q, want %q", got, want)
			}
		case <-deadline:
			t.Fatalf("not called with %q", want)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	write(t, path, "one")
	calls := watched(t, path, Options{})
	expect(t, calls, "one")

	write(t, path, "two") // in place
	expect(t, calls, "two")

	write(t, path+".tmp", "three")
	rename(t, path+".tmp", path) // as careful writers do
	expect(t, calls, "three")

	rename(t, path, path+"~") // as editors do
	write(t, path, "four")
	expect(t, calls, "four")

	if err := os.Remove(path); err != nil { // causes no call
		t.Fatal(err)
	}
	write(t, path, "five")
	expect(t, calls, "five")
}

func TestFileAppearsLate(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b", "mesh.yaml")
	calls := watched(t, path, Options{})
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "one")
	expect(t, calls, "one", "")
	// The whole directory is deleted and created again.
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "two")
	expect(t, calls, "two")
}

// TestDirectoryIsReplacedAfterItsFile deletes a file, and its directory only after the change of the file
// was processed. The watch of the directory ends with it, so the new directory needs one of its own.
func TestDirectoryIsReplacedAfterItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "mesh.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "one")
	calls := watched(t, path, Options{Settle: time.Millisecond, Poll: time.Hour})
	expect(t, calls, "one")
	for _, content := range []string{"two", "three"} {
		if err := os.Remove(path); err != nil { // causes no call
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // many times Settle: without it there is nothing to see
		if err := os.Remove(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, content)
		expect(t, calls, content, "")
	}
}

// TestDirectoriesAppearWhileWatchesAreSet creates directories while the watches of a path through them are
// set. A file in a directory that appeared before the watch of its parent must be seen without polling.
func TestDirectoriesAppearWhileWatchesAreSet(t *testing.T) {
	var running sync.WaitGroup
	for range 100 {
		path := filepath.Join(t.TempDir(), "a", "b", "mesh.yaml")
		calls := watched(t, path, Options{Poll: time.Hour})
		running.Go(func() {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond) // the directories exist, the file does not
			if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
				t.Error(err)
				return
			}
			for deadline := time.After(patience); ; {
				select {
				case got := <-calls:
					if got == "one" {
						return
					}
				case <-deadline:
					t.Error("the file was not seen")
					return
				}
			}
		})
	}
	running.Wait()
}

// flip switches a directory like a mounted ConfigMap to other content.
func flip(t *testing.T, dir, version, content string) {
	t.Helper()
	real := filepath.Join(dir, "..version_"+version)
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(real, "mesh"), content)
	link := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(real), link); err != nil {
		t.Fatal(err)
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	rename(t, link, filepath.Join(dir, "..data"))
	if old != "" {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFileOfConfigMap(t *testing.T) {
	dir := t.TempDir()
	flip(t, dir, "1", "one")
	path := filepath.Join(dir, "mesh")
	if err := os.Symlink("..data/mesh", path); err != nil {
		t.Fatal(err)
	}
	calls := watched(t, path, Options{})
	expect(t, calls, "one")
	for i, content := range []string{"two", "three", "four"} { // the first flip is not the last
		flip(t, dir, string(rune('a'+i)), content)
		expect(t, calls, content)
	}
}

func TestFileBehindLinkElsewhere(t *testing.T) {
	root := t.TempDir()
	path, target := filepath.Join(root, "link"), filepath.Join(root, "elsewhere", "target")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, target, "one")
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	calls := watched(t, path, Options{})
	expect(t, calls, "one")
	write(t, target, "two")
	expect(t, calls, "two")
}

func TestFileTruncatedIsNotEmptyYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	write(t, path, "one")
	calls := watched(t, path, Options{Hold: time.Hour, Poll: 5 * time.Millisecond})
	expect(t, calls, "one")
	write(t, path, "")
	write(t, path+".2", "") // let the watcher check: another file's events and some polls pass
	other := watched(t, path+".2", Options{Poll: 5 * time.Millisecond})
	expect(t, other, "")
	write(t, path+".2", "x")
	expect(t, other, "x")
	write(t, path, "two")
	expect(t, calls, "two")
}

func TestFileEmptyForLongIsEmpty(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	write(t, path, "one")
	calls := watched(t, path, Options{Hold: 10 * time.Millisecond})
	expect(t, calls, "one")
	write(t, path, "")
	expect(t, calls, "")
}

func TestNames(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"a/b", "x"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "a/b/file"), "")
	for link, target := range map[string]string{"x/dir": "../a", "x/abs": filepath.Join(root, "x/dir/b"), "x/self": "self"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"a/b/file":     "a/b/file",
		"x/dir/b/file": "x/dir a/b/file",
		"x/abs/file":   "x/abs x/dir a/b/file",
		"a/missing/z":  "a/missing",
		"x/dir/none":   "x/dir a/none",
	} {
		var names []string
		for _, name := range Names(filepath.Join(root, path)) {
			names = append(names, strings.TrimPrefix(name, root+"/"))
		}
		if diff := cmp.Diff(want, strings.Join(names, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if names := Names(filepath.Join(root, "x/self")); len(names) > maxLinks+1 { // a link to itself
		t.Errorf("got %d names", len(names))
	}
}

func TestBurst(t *testing.T) {
	b := Burst{Settle: 10 * time.Millisecond, Bound: 25 * time.Millisecond}
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	if _, any := b.Due(); any {
		t.Error("due without a change")
	}
	for _, step := range []struct{ change, due int }{{100, 110}, {108, 118}, {117, 125}, {124, 125}} {
		b.Note(at(step.change))
		if due, _ := b.Due(); !due.Equal(at(step.due)) {
			t.Errorf("after a change at %d: due at %d, want %d", step.change, due.UnixMilli(), step.due)
		}
	}
	b.End()
	if _, any := b.Due(); any {
		t.Error("due after the end")
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Read(dir); err == nil {
		t.Error("read a directory")
	}
	if _, _, err := Read(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	big := filepath.Join(dir, "big")
	write(t, big, "")
	if err := os.Truncate(big, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Read(big); err == nil {
		t.Error("read a file that is too large")
	}
}
