package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// located is a directory with objects, and the Positions of it.
type located struct {
	*Positions
	t       *testing.T
	dir     string
	objects map[config.Key]*config.Config
	reads   int
}

// newLocated returns a directory with the files.
func newLocated(t *testing.T, files map[string]string) *located {
	t.Helper()
	x := &located{Positions: NewPositions(), t: t, dir: t.TempDir(), objects: map[config.Key]*config.Config{}}
	x.Positions.read = func(path string) ([]byte, watch.Look, error) {
		x.reads++
		return watch.Read(path)
	}
	x.AddDirectory(x.dir)
	for name, text := range files {
		x.use(name, text)
	}
	return x
}

// use writes a file, whose objects are then in use.
func (x *located) use(name, text string) {
	x.t.Helper()
	write(x.t, filepath.Join(x.dir, name), text)
	for _, d := range decode.Manifest(name, []byte(text)) {
		if d.Config == nil {
			x.t.Fatalf("%s: %v", name, d.Problems)
		}
		x.objects[d.Key] = d.Config
	}
}

// originOf returns the origin of a Problem of a field of a DestinationRule after Locate.
func (x *located) originOf(object, field string) string {
	x.t.Helper()
	k := config.Key{Kind: "DestinationRule", Namespace: "default", Name: object}
	list := []config.Problem{{Key: k, Field: field, Origin: x.objects[k].Origin}}
	out := x.Locate(list, func(k config.Key) *config.Config { return x.objects[k] })
	if list[0].Origin != x.objects[k].Origin {
		x.t.Error("Locate has modified its input")
	}
	return out[0].Origin
}

// TestPositionsOfFields checks positions in documents, in lists, in a list on one line, and of
// fields that do not exist. Each file is read once per field.
func TestPositionsOfFields(t *testing.T) {
	const listed = `{"apiVersion":"networking.istio.io/v1","kind":"DestinationRule","metadata":{"name":"%s"},"spec":{"host":"h"}}`
	x := newLocated(t, map[string]string{
		"f.yaml":     docs(rule("a", "a"), rule("b", "b")),
		"sub/l.yaml": "kind: List\nitems:\n- " + strings.ReplaceAll(rule("c", "c"), "\n", "\n  ") + "\n- " + strings.ReplaceAll(rule("d", "d"), "\n", "\n  "),
		"one.json": `{"kind":"List","items":[` + fmt.Sprintf(listed, "e") + "," + fmt.Sprintf(listed, "f") + "]}\n" +
			fmt.Sprintf(listed, "g"),
	})
	for _, c := range []struct{ object, field, want string }{
		{"a", "spec.host", "f.yaml#1:4:8"},
		{"b", "spec.host", "f.yaml#2:9:8"},
		{"b", "spec.trafficPolicy.tls", "f.yaml#2:9:1"},
		{"b", "", "f.yaml#2:6"},
		{"c", "spec.host", "sub/l.yaml#1:6:10"},
		{"d", "spec.host", "sub/l.yaml#1:11:10"},
		{"e", "spec.host", "one.json#1:1:121"},
		{"f", "spec.host", "one.json#1:1:230"},
		{"g", "spec.host", "one.json#2:2:97"},
	} {
		for range 2 {
			if got := x.originOf(c.object, c.field); got != c.want {
				t.Errorf("%s of %s is at %s, want %s", c.field, c.object, got, c.want)
			}
		}
	}
	if x.reads != 8 {
		t.Errorf("files were read %d times for 8 fields", x.reads)
	}
}

// TestPositionsOfOtherVersions checks that an origin stays as it is while the file has another
// version of the object than the one in use, does not have the object, has an invalid one, or
// cannot be read.
func TestPositionsOfOtherVersions(t *testing.T) {
	x := newLocated(t, map[string]string{"f.yaml": rule("a", "a")})
	path := filepath.Join(x.dir, "f.yaml")
	for name, text := range map[string]string{
		"other content":  rule("a", "b"),
		"other object":   rule("b", "a"),
		"invalid object": rule("a", "not a host"),
		"invalid YAML":   "spec: [",
		"moved":          "# moved\n" + rule("a", "a"),
		"large":          rule("a", "a") + strings.Repeat("#\n", maxLocatedSize/2),
	} {
		write(t, path, text)
		if got := x.originOf("a", "spec.host"); got != "f.yaml#1:1" {
			t.Errorf("%s: the position is %s", name, got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := x.originOf("a", "spec.host"); got != "f.yaml#1:1" {
		t.Errorf("removed file: the position is %s", got)
	}
	x.use("f.yaml", "# moved\n"+rule("a", "a"))
	if got := x.originOf("a", "spec.host"); got != "f.yaml#1:5:8" {
		t.Errorf("the position is %s", got)
	}
}

// TestPositionsAfterAModification checks that a file is read again after it was modified, even if
// its object is the same and at the same line.
func TestPositionsAfterAModification(t *testing.T) {
	x := newLocated(t, map[string]string{"f.yaml": rule("a", "a")})
	if got := x.originOf("a", "spec.host"); got != "f.yaml#1:4:8" {
		t.Errorf("the position is %s", got)
	}
	path := filepath.Join(x.dir, "f.yaml")
	write(t, path, "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {  host: a}\n")
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := x.originOf("a", "spec.host"); got != "f.yaml#1:4:10" {
		t.Errorf("the position is %s", got)
	}
}

// TestPositionsInSeveralDirectories checks that the object of the first directory that has it is
// located, and that paths that lead out of a directory are not read.
func TestPositionsInSeveralDirectories(t *testing.T) {
	x := newLocated(t, map[string]string{"f.yaml": rule("a", "a")})
	second := t.TempDir()
	write(t, filepath.Join(second, "f.yaml"), rule("b", "b"))
	x.AddDirectory(second)
	for _, d := range decode.Manifest("f.yaml", []byte(rule("b", "b"))) {
		x.objects[d.Key] = d.Config
	}
	for _, object := range []string{"a", "b"} {
		if got := x.originOf(object, "spec.host"); got != "f.yaml#1:4:8" {
			t.Errorf("%s is at %s", object, got)
		}
	}
	outside := config.Problem{Key: config.Key{Name: "a"}, Field: "spec", Origin: "../f.yaml#1:1"}
	reads := x.reads
	x.Locate([]config.Problem{outside}, func(config.Key) *config.Config { return nil })
	if x.reads != reads {
		t.Error("a file outside of the directory was read")
	}
}
