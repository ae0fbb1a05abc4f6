package file

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the timeout of each wait on a busy machine.
const patience = 10 * time.Second

// follower runs a Source and accumulates its batches.
type follower struct {
	t        testing.TB
	dir      string
	batches  chan mesh.Batch
	objects  map[string]*config.Config // by name
	problems map[string][]config.Problem
	synced   bool
	count    int
	reads    *atomic.Int64 // files that were read
}

// follow runs a source of dir until the test ends. Times that are not set are short.
func follow(t testing.TB, dir string, o Options) *follower {
	t.Helper()
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Settle, 5*time.Millisecond)
	def(&o.Hold, 20*time.Millisecond)
	def(&o.Poll, time.Hour)
	o.Dir = dir
	f := &follower{
		t: t, dir: dir, batches: make(chan mesh.Batch), objects: map[string]*config.Config{},
		problems: map[string][]config.Problem{}, reads: new(atomic.Int64),
	}
	o.Logger = slog.New(readCounter{Handler: slog.DiscardHandler, n: f.reads})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(o).Run(ctx, f.batches) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return f
}

// readCounter adds up the files that the source logs to have read.
type readCounter struct {
	slog.Handler
	n *atomic.Int64
}

func (readCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c readCounter) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "files" {
			c.n.Add(a.Value.Int64())
		}
		return true
	})
	return nil
}

func (f *follower) recordBatch(batch mesh.Batch) {
	f.t.Helper()
	f.count++
	if len(batch) == 0 {
		f.t.Error("empty batch")
	}
	for _, e := range batch {
		if e.Source != "file:"+f.dir {
			f.t.Errorf("event of source %q", e.Source)
		}
		switch {
		case e.Op == mesh.Synced:
			if f.synced || len(batch) != 1 {
				f.t.Errorf("synced again, or with others: %v", batch)
			}
			f.synced = true
		case e.Problems != nil:
			if e.Problems.Scope != f.dir && !strings.HasPrefix(e.Problems.Scope, f.dir+"/") {
				f.t.Errorf("problems of scope %q", e.Problems.Scope)
			}
			rel := strings.TrimPrefix(strings.TrimPrefix(e.Problems.Scope, f.dir), "/")
			if f.problems[rel] = e.Problems.List; len(e.Problems.List) == 0 {
				delete(f.problems, rel)
			}
		case e.Op == mesh.Delete:
			if f.objects[e.Config.Name] == nil {
				f.t.Errorf("deleted %s, which is not there", e.Config.Key)
			}
			delete(f.objects, e.Config.Name)
		default:
			if old := f.objects[e.Config.Name]; old != nil && !mustSend(old, e.Config) {
				f.t.Errorf("sent %s again as it was", e.Config.Key)
			}
			f.objects[e.Config.Name] = e.Config
		}
	}
}

// until applies batches until the state is as wanted.
func (f *follower) until(what string, done func() bool) {
	f.t.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case batch := <-f.batches:
			f.recordBatch(batch)
		case <-deadline:
			f.t.Fatalf("timed out waiting for %s; got %s", what, f.state())
		}
	}
}

// untilState waits for a state as state returns it.
func (f *follower) untilState(want ...string) {
	f.t.Helper()
	text := strings.Join(want, "\n")
	f.until(text, func() bool { return f.synced && f.state() == text })
}

// state lists the hosts of all objects, which are DestinationRules, and the Problems, a line each.
func (f *follower) state() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		lines = append(lines, name+"="+hostOf(f.objects[name]))
	}
	for _, scope := range slices.Sorted(maps.Keys(f.problems)) {
		for _, p := range f.problems[scope] {
			lines = append(lines, fmt.Sprintf("%s in %s: %s", p.Severity, scope, p))
		}
	}
	return strings.Join(lines, "\n")
}

// quiet waits until the source has processed all pending changes: it creates and deletes another
// file and waits for both events.
func (f *follower) quiet() {
	f.t.Helper()
	f.atomically("zz-marker.yaml", rule("zz-marker", "a"))
	f.until("the marker", func() bool { return f.objects["zz-marker"] != nil })
	f.remove("zz-marker.yaml")
	f.until("no marker", func() bool { return f.objects["zz-marker"] == nil })
}

func hostOf(c *config.Config) string {
	if c.Kind == api.DestinationRule {
		return config.Spec[interface{ GetHost() string }](c).GetHost()
	}
	return string(c.Kind)
}

// rule is a document with a DestinationRule.
func rule(name, host string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: %s}\nspec: {host: %q}\n", name, host)
}

func docs(d ...string) string { return strings.Join(d, "---\n") }

func (f *follower) path(rel string) string { return filepath.Join(f.dir, rel) }

// write writes in place, as a careless program does.
func (f *follower) write(rel, content string) {
	f.t.Helper()
	write(f.t, f.path(rel), content)
}

// atomically writes beside and renames, as a careful program does.
func (f *follower) atomically(rel, content string) {
	f.t.Helper()
	temporary := filepath.Join(filepath.Dir(f.path(rel)), ".tmp-"+filepath.Base(rel))
	write(f.t, temporary, content)
	f.rename(temporary, f.path(rel))
}

func (f *follower) rename(from, to string) {
	f.t.Helper()
	if err := os.Rename(from, to); err != nil {
		f.t.Fatal(err)
	}
}

func (f *follower) remove(rel string) {
	f.t.Helper()
	if err := os.RemoveAll(f.path(rel)); err != nil {
		f.t.Fatal(err)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
