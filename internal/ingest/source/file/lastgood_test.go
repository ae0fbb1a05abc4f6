package file

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

const warnKept = "warning in f.yaml: DestinationRule/default/b (f.yaml#2:6): has errors now; it stays in use as it was before"

func TestBrokenDocumentKeepsItsLastGoodVersion(t *testing.T) {
	scorecard.Check(t, 25)
	dir := t.TempDir()
	write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b"), rule("c", "c")))
	f := follow(t, dir, Options{})
	f.untilState("a=a", "b=b", "c=c")
	// The name can be read: the object of that name is kept, the others change.
	f.atomically("f.yaml", docs(rule("a", "a2"), rule("b", "b b"), rule("c", "c2")))
	f.untilState("a=a2", "b=b", "c=c2", warnKept,
		`error in f.yaml: DestinationRule/default/b (f.yaml#2:9:8): spec.host: "b b" is not a host name: "b b" must be 1 to 63 letters, digits or "-", beginning and ending with a letter or digit`)
	// Still invalid, for another reason.
	f.atomically("f.yaml", docs(rule("a", "a3"), "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: b}\nspec: {hots: b}\n"))
	f.untilState("a=a3", "b=b", warnKept,
		`error in f.yaml: DestinationRule/default/b (f.yaml#2:9:8): spec.hots: unknown field; did you mean "host"?`)
	// Fixed.
	f.atomically("f.yaml", docs(rule("a", "a3"), rule("b", "b2")))
	f.untilState("a=a3", "b=b2")
	// A document that was never valid has no object.
	f.atomically("f.yaml", docs(rule("a", "a3"), rule("new", "n n")))
	f.until("the problem", func() bool { return len(f.problems["f.yaml"]) == 1 })
	if f.objects["new"] != nil || f.objects["b"] != nil {
		t.Errorf("there is %s", f.state())
	}
}

func TestUnreadableDocumentKeepsItsObjects(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b"), rule("c", "c")))
	write(t, dir+"/g.yaml", rule("g", "g"))
	f := follow(t, dir, Options{})
	f.untilState("a=a", "b=b", "c=c", "g=g")
	const keeps = "is missing, and stays in use while a document of the file cannot be read"
	f.atomically("f.yaml", docs(rule("a", "a2"), "kind: DestinationRule\nmetadata:\n  name: b\nspec: [\n", rule("d", "d")))
	f.untilState("a=a2", "b=b", "c=c", "d=d", "g=g",
		"error in f.yaml: DestinationRule//b (f.yaml#2:9): invalid YAML: did not find expected node content",
		"warning in f.yaml: DestinationRule/default/b (f.yaml#2:6): "+keeps,
		"warning in f.yaml: DestinationRule/default/c (f.yaml#3:11): "+keeps)
	f.remove("g.yaml") // other files are still processed
	f.until("no g", func() bool { return f.objects["g"] == nil })
	// A fixed document is used.
	f.atomically("f.yaml", docs(rule("a", "a2"), rule("b", "b2"), rule("d", "d")))
	f.untilState("a=a2", "b=b2", "d=d")
	// A completely invalid file deletes no objects; a removed file does.
	f.atomically("f.yaml", "}")
	f.until("the problem", func() bool { return len(f.problems["f.yaml"]) == 4 })
	if len(f.objects) != 3 {
		t.Errorf("there is %s", f.state())
	}
	f.remove("f.yaml")
	f.untilState()
}

func TestFileWrittenPieceByPiece(t *testing.T) {
	scorecard.Check(t, 25)
	dir := t.TempDir()
	write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b"), rule("c", "c")))
	f := follow(t, dir, Options{Hold: time.Hour})
	f.untilState("a=a", "b=b", "c=c")
	content := docs(rule("a", "a2"), rule("b", "b2"), rule("c", "c2"))
	file, err := os.OpenFile(f.path("f.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	f.quiet() // the writer thinks
	for at := 0; at < len(content); at += 40 {
		if _, err := file.WriteString(content[at:min(at+40, len(content))]); err != nil {
			t.Fatal(err)
		}
		f.quiet()
		if len(f.objects) != 3 {
			t.Fatalf("after %d bytes there is %s", at, f.state())
		}
	}
	f.untilState("a=a2", "b=b2", "c=c2")
}

func TestObjectRemovedInPlaceIsRemovedAfterAWhile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b")))
	f := follow(t, dir, Options{Hold: 20 * time.Millisecond})
	f.untilState("a=a", "b=b")
	f.write("f.yaml", rule("a", "a2"))
	f.untilState("a=a2")
	f.write("f.yaml", "")
	f.untilState()
}

func TestObjectRemovedByRenameIsRemovedAtOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b")))
	f := follow(t, dir, Options{Hold: time.Hour})
	f.untilState("a=a", "b=b")
	f.atomically("f.yaml", rule("a", "a"))
	f.untilState("a=a")
	f.remove("f.yaml")
	f.untilState()
}

// TestMissingObjectsAreLookedForAgain completes a file whose event does not arrive before its
// missing object is due for removal, as if the process had been stopped.
func TestMissingObjectsAreLookedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b")))
		f := follow(t, dir, Options{PollOnly: true, Poll: 4 * time.Second, Hold: 2 * time.Second})
		f.untilState("a=a", "b=b")
		f.write("f.yaml", rule("a", "a2"))
		f.untilState("a=a2", "b=b")
		f.write("f.yaml", docs(rule("a", "a2"), rule("b", "b")))
		select {
		case batch := <-f.batches: // before the next scan of all files
			f.recordBatch(batch)
		case <-time.After(3 * time.Second):
		}
		if f.objects["b"] == nil {
			t.Error("an object was removed that its file has")
		}
	})
}

// TestReusedInodeNumber removes objects by replacing a file twice. Most file systems assign the
// third file the inode number of the first. It must not be treated as the first file rewritten in
// place.
func TestReusedInodeNumber(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f.yaml", docs(rule("a", "a"), rule("b", "b")))
	f := follow(t, dir, Options{Hold: time.Hour, Settle: 50 * time.Millisecond})
	for i := range 20 {
		f.atomically("f.yaml", docs(rule("a", "a"), rule("b", fmt.Sprint("b", i))))
		f.untilState("a=a", fmt.Sprint("b=b", i))
		// Both replacements are made before the file is read.
		f.atomically("f.yaml", docs(rule("a", "a"), rule("b", "unseen")))
		f.atomically("f.yaml", rule("a", "a"))
		f.untilState("a=a")
	}
}

func TestEditorsReplaceFiles(t *testing.T) {
	scorecard.Check(t, 25)
	dir := t.TempDir()
	write(t, dir+"/f.yaml", rule("a", "a"))
	f := follow(t, dir, Options{Hold: time.Hour})
	f.untilState("a=a")
	// vim: a test file, a swap file, the old one renamed to a backup, the new one written, the
	// backup removed.
	write(t, f.path("4913"), "")
	f.remove("4913")
	write(t, f.path(".f.yaml.swp"), "x")
	f.rename(f.path("f.yaml"), f.path("f.yaml~"))
	f.write("f.yaml", rule("a", "vim"))
	f.remove("f.yaml~")
	f.untilState("a=vim")
	// emacs: a lock that is a link to nowhere, an autosave file.
	if err := os.Symlink("user@host.1:2", f.path(".#f.yaml")); err != nil {
		t.Fatal(err)
	}
	write(t, f.path("#f.yaml#"), rule("a", "autosave"))
	f.write("f.yaml", rule("a", "emacs"))
	f.remove(".#f.yaml")
	f.remove("#f.yaml#")
	f.untilState("a=emacs")
}

func TestFileThatCannotBeReadKeepsItsObjects(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f.yaml", rule("a", "a"))
	f := follow(t, dir, Options{})
	f.untilState("a=a")
	// A pipe replaces a file without permission, because root can read that.
	f.remove(".pipe")
	if err := syscall.Mkfifo(f.path(".pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.rename(f.path(".pipe"), f.path("f.yaml"))
	f.untilState("a=a", "error in f.yaml: f.yaml: cannot be read, the last content read stays in use: not a regular file")
	f.atomically("f.yaml", rule("a", "b"))
	f.untilState("a=b")
	// A circular link.
	if err := os.Symlink("f.yaml", f.path(".link")); err != nil {
		t.Fatal(err)
	}
	f.rename(f.path(".link"), f.path("f.yaml"))
	f.untilState("a=b", "error in f.yaml: f.yaml: cannot be read, the last content read stays in use: too many levels of symbolic links")
	f.remove("f.yaml")
	f.untilState()
}

// configMap writes files into a directory as kubelet mounts a ConfigMap: links to ..data/NAME,
// where ..data is a link to the directory of the current version. A new version is installed by one
// rename.
func configMap(t *testing.T, dir, version string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		write(t, filepath.Join(dir, "..v"+version, name), content)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Symlink("..v"+version, filepath.Join(dir, "..data_tmp")))
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	must(os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	links, err := filepath.Glob(filepath.Join(dir, "[^.]*"))
	must(err)
	for _, link := range links {
		if _, stays := files[filepath.Base(link)]; !stays {
			must(os.Remove(link))
		}
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if old != "" {
		must(os.RemoveAll(filepath.Join(dir, old)))
	}
}

func TestConfigMap(t *testing.T) {
	scorecard.Check(t, 25)
	dir := t.TempDir()
	mount := filepath.Join(dir, "mount")
	configMap(t, mount, "1", map[string]string{"a.yaml": rule("a", "a1"), "b.yaml": rule("b", "b1")})
	f := follow(t, dir, Options{Hold: time.Hour})
	f.untilState("a=a1", "b=b1")
	before := f.count
	configMap(t, mount, "2", map[string]string{"a.yaml": rule("a", "a2"), "b.yaml": docs(rule("b", "b2"), rule("c", "c2"))})
	f.untilState("a=a2", "b=b2", "c=c2")
	configMap(t, mount, "3", map[string]string{"a.yaml": rule("a", "a2"), "c.yaml": rule("c", "c3")})
	f.untilState("a=a2", "c=c3")
	configMap(t, mount, "4", map[string]string{"a.yaml": rule("a", "a4")})
	f.untilState("a=a4")
	if n := f.count - before; n > 8 { // three, if no other event interferes
		t.Errorf("three versions arrived in %d batches", n)
	}
}
