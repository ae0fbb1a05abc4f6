package file

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

func TestEverythingThenSyncedThenChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", docs(rule("a1", "a"), rule("a2", "a")))
	write(t, dir+"/deep/er/b.yml", rule("b", "b"))
	write(t, dir+"/c.JSON", `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}}`)
	write(t, dir+"/empty.yaml", "")
	write(t, dir+"/broken.yaml", "{")
	for _, ignored := range []string{".hidden.yaml", ".git/x.yaml", "a.yaml~", "#a.yaml#", "a.yaml.swp", "README.md"} {
		write(t, dir+"/"+ignored, rule("ignored", "x"))
	}
	f := follow(t, dir, Options{})
	first := <-f.batches
	f.recordBatch(first)
	if len(f.objects) != 4 || len(f.problems) != 1 || f.synced {
		t.Fatalf("the first batch is %v", first)
	}
	if second := <-f.batches; len(second) != 1 || second[0].Op != mesh.Synced {
		t.Fatalf("the second batch is %v", second)
	}
	f.synced = true
	f.remove("broken.yaml")
	f.untilState("a1=a", "a2=a", "b=b", "c=Namespace")
	if o := f.objects["a2"].Origin; o != "a.yaml#2:6" {
		t.Errorf("origin %q", o)
	}

	f.write("new.YAML", rule("new", "one"))
	f.untilState("a1=a", "a2=a", "b=b", "c=Namespace", "new=one")
	f.write("new.YAML", rule("new", "two"))
	f.untilState("a1=a", "a2=a", "b=b", "c=Namespace", "new=two")
	f.remove("new.YAML")
	f.untilState("a1=a", "a2=a", "b=b", "c=Namespace")
	f.remove("deep")
	f.untilState("a1=a", "a2=a", "c=Namespace")
	f.write("deep/again/and/deeper/d.yaml", rule("d", "d"))
	f.untilState("a1=a", "a2=a", "c=Namespace", "d=d")
	f.rename(f.path("deep/again"), f.path("moved"))
	f.untilState("a1=a", "a2=a", "c=Namespace", "d=d")
	f.write("moved/and/deeper/d.yaml", rule("d", "e"))
	f.untilState("a1=a", "a2=a", "c=Namespace", "d=e")
}

func TestUnchangedContentSendsNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", rule("a", "a"))
	f := follow(t, dir, Options{})
	f.untilState("a=a")
	f.quiet()
	before := f.count
	f.write("a.yaml", rule("a", "a"))
	f.atomically("a.yaml", rule("a", "a"))
	if err := os.Chtimes(f.path("a.yaml"), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	f.atomically("a.yaml", rule("a", "a")+"# a comment after it\n")
	f.quiet()
	if n := f.count - before; n != 2 { // those of quiet
		t.Errorf("got %d batches", n)
	}
	// With lines before it, it is the same object at another place.
	hash := f.objects["a"].Hash
	f.atomically("a.yaml", "# a comment before it\n"+rule("a", "a"))
	f.until("the new line", func() bool { return f.objects["a"].Origin == "a.yaml#1:2" })
	if f.objects["a"].Hash != hash {
		t.Error("the hash changed")
	}
}

func TestManyChangesAreOneBatch(t *testing.T) {
	dir := t.TempDir()
	f := follow(t, dir, Options{Settle: 50 * time.Millisecond})
	f.untilState()
	before := f.count
	for i := range 50 {
		f.atomically(fmt.Sprintf("f%d.yaml", i), rule(fmt.Sprintf("r%d", i), "a"))
	}
	f.until("all", func() bool { return len(f.objects) == 50 })
	if n := f.count - before; n > 10 { // one, where the machine is not too busy
		t.Errorf("50 changes at once arrived in %d batches", n)
	}
}

func TestChangesMergeWithoutReceiver(t *testing.T) {
	dir := t.TempDir()
	f := follow(t, dir, Options{})
	f.untilState()
	for i := range 20 {
		f.atomically("a.yaml", rule("a", fmt.Sprint("h", i)))
		f.atomically(fmt.Sprintf("b%d.yaml", i), rule(fmt.Sprint("b", i), "b"))
	}
	for i := range 20 {
		f.remove(fmt.Sprintf("b%d.yaml", i))
	}
	f.untilState("a=h19")
}

// TestRenameIsSeenSoon measures the time from a rename to the batch with the default times.
func TestRenameIsSeenSoon(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", rule("a", "h"))
	f := follow(t, dir, Options{Settle: 25 * time.Millisecond, Hold: time.Second})
	f.untilState("a=h")
	best := time.Hour
	for i := range 10 {
		host := fmt.Sprint("h", i)
		begin := time.Now()
		f.atomically("a.yaml", rule("a", host))
		f.untilState("a=" + host)
		best = min(best, time.Since(begin))
	}
	if best > 50*time.Millisecond { // the best of ten, because the machine may be busy
		t.Errorf("a rename is seen after %s at best", best)
	}
}

func TestOneChangeReadsOneFile(t *testing.T) {
	dir := t.TempDir()
	for i := range 200 {
		write(t, fmt.Sprintf("%s/d%d/f%d.yaml", dir, i%10, i), rule(fmt.Sprint("r", i), "a"))
	}
	f := follow(t, dir, Options{})
	f.until("all", func() bool { return f.synced && len(f.objects) == 200 })
	before := f.reads.Load()
	f.atomically("d3/f13.yaml", rule("r13", "b"))
	f.until("the change", func() bool { return hostOf(f.objects["r13"]) == "b" })
	if n := f.reads.Load() - before; n != 1 {
		t.Errorf("read %d files", n)
	}
}

// largeTree makes n files in a few directories.
func largeTree(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		write(t, fmt.Sprintf("%s/d%d/f%d.yaml", dir, i%50, i), rule(fmt.Sprint("r", i), "a"))
	}
	return dir
}

// TestLargeTree counts how often files are read: the work must follow the number of files.
// BenchmarkLargeTree has the time.
func TestLargeTree(t *testing.T) {
	const n = 1500
	dir := largeTree(t, n)
	f := follow(t, dir, Options{})
	f.until("all", func() bool { return f.synced && len(f.objects) == n })
	if reads := f.reads.Load(); reads != n {
		t.Errorf("%d files were read %d times", n, reads)
	}
}

func BenchmarkLargeTree(b *testing.B) {
	const n = 5000
	dir := largeTree(b, n)
	for b.Loop() {
		f := follow(b, dir, Options{})
		f.until("all", func() bool { return f.synced && len(f.objects) == n })
	}
}

func TestDirectoryMissingAtFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	s := New(Options{Dir: dir})
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Check: %v", err)
	}
	f := follow(t, dir, Options{})
	f.until("a problem", func() bool { return len(f.problems) == 1 })
	if f.synced || !strings.Contains(f.state(), "error in : "+dir+": cannot be read") {
		t.Errorf("synced %v with %s", f.synced, f.state())
	}
	write(t, dir+"/a.yaml", rule("a", "a"))
	f.untilState("a=a")
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

func TestCheckOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	write(t, path, "")
	if err := New(Options{Dir: path}).Check(); err == nil {
		t.Error("a file passes for a directory")
	}
}

func TestDirectoryThatVanishesKeepsEverything(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "config")
	write(t, dir+"/a.yaml", rule("a", "a"))
	write(t, dir+"/sub/b.yaml", rule("b", "b"))
	write(t, dir+"/sub/c.yaml", rule("c", "c"))
	f := follow(t, dir, Options{Hold: 200 * time.Millisecond})
	f.untilState("a=a", "b=b", "c=c")
	f.rename(dir, parent+"/away")
	f.until("a problem", func() bool { return f.problems[""] != nil })
	if len(f.objects) != 3 {
		t.Errorf("there is %s", f.state())
	}
	// The files are restored one by one, except one.
	write(t, dir+"/a.yaml", rule("a", "a2"))
	f.until("the new a", func() bool { return hostOf(f.objects["a"]) == "a2" })
	if len(f.objects) != 3 {
		t.Errorf("there is %s", f.state())
	}
	write(t, dir+"/sub/b.yaml", rule("b", "b2"))
	f.untilState("a=a2", "b=b2")
}

func TestPollingAlone(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.yaml", rule("a", "a"))
	f := follow(t, dir, Options{PollOnly: true, Poll: 10 * time.Millisecond})
	f.untilState("a=a")
	f.atomically("a.yaml", rule("a", "b")) // same size, and perhaps the same time
	f.untilState("a=b")
	f.write("sub/c.yaml", rule("c", "c"))
	f.untilState("a=b", "c=c")
	f.remove("sub")
	f.untilState("a=b")
}

func TestPollFindsChangesWithoutEvents(t *testing.T) {
	root := t.TempDir()
	dir, elsewhere := filepath.Join(root, "config"), filepath.Join(root, "elsewhere")
	write(t, elsewhere+"/b.yaml", rule("b", "b"))
	write(t, dir+"/a.yaml", rule("a", "a"))
	if err := os.Symlink(elsewhere, dir+"/one"); err != nil {
		t.Fatal(err)
	}
	f := follow(t, dir, Options{Poll: 10 * time.Millisecond})
	f.untilState("a=a", "b=b")
	f.write("one/b.yaml", rule("b", "b2"))
	f.untilState("a=a", "b=b2")
}

// TestRandomNoise creates random file events and compares the final state with that of a new
// source.
func TestRandomNoise(t *testing.T) {
	writes := scorecard.BySize(300, 10_000, 100_000)
	scorecard.Check(t, 25, scorecard.Size("random writes and removals", writes))
	dir := t.TempDir()
	f := follow(t, dir, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range writes {
		name := fmt.Sprintf("d%d/f%d.yaml", random.IntN(3), random.IntN(4))
		switch random.IntN(6) {
		case 0:
			f.remove(name)
		case 1:
			f.remove(filepath.Dir(name))
		case 2:
			f.write(name, "half a {")
		case 3:
			f.write(name, "")
		default:
			f.write(name, docs(rule(fmt.Sprint("r", random.IntN(6)), fmt.Sprint("h", i)), rule(fmt.Sprint("s", random.IntN(6)), "s")))
		}
	}
	for d := range 3 { // at the end all is well
		for n := range 4 {
			f.write(fmt.Sprintf("d%d/f%d.yaml", d, n), rule(fmt.Sprintf("end%d%d", d, n), "e"))
		}
	}
	var want []string
	for d := range 3 {
		for n := range 4 {
			want = append(want, fmt.Sprintf("end%d%d=e", d, n))
		}
	}
	f.untilState(want...)
}

// TestNamespaces: only objects of the selected namespaces are read, and mistakes in others are not
// reported.
func TestNamespaces(t *testing.T) {
	in := func(namespace, text string) string {
		return strings.Replace(text, "metadata: {", "metadata: {namespace: "+namespace+", ", 1)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "all.yaml"), docs(
		in("shop", rule("a", "a")), in("other", rule("b", "b")), in("other", rule("c", "")),
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: other}\n",
	))
	f := follow(t, dir, Options{Namespaces: []string{"shop"}})
	f.untilState("a=a", "other=Namespace")
}
