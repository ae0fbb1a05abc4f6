package file

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// emptyHold is how many times Hold an empty file keeps its objects.
const emptyHold = 10

// maxUnsure is how often a file is read again because it was written to while it was read.
const maxUnsure = 5

// loop is one Run: its goroutine owns all of it.
type loop struct {
	name  string
	root  string
	o     Options
	log   *slog.Logger
	dirs  *watch.Dirs
	store *store

	burst   watch.Burst
	touched map[string]bool // files with events since they were last read
	all     bool            // the whole tree is to be looked at
	looked  time.Time       // when it was
	names   map[string]bool // see tree
	linked  bool            // see tree
	unsure  map[string]int  // how often files were written to while they were read
	holding map[string]bool // files with missing objects
	// missing says that the directory itself was not there at the last look.
	missing bool
	// ready says that the directory was read once, synced that this was sent.
	ready, synced bool
	unwatched     string // last logged
}

func newLoop(s *Source, root string, dirs *watch.Dirs) *loop {
	return &loop{
		name: s.Name(), root: root, o: s.o, log: s.o.Logger, dirs: dirs, store: newStore(s.Name(), root),
		burst:   watch.Burst{Settle: s.o.Settle, Bound: 3 * s.o.Settle},
		touched: map[string]bool{}, unsure: map[string]int{}, names: map[string]bool{}, holding: map[string]bool{},
	}
}

// run waits for changes and for someone to take the batches. While nobody does, changes add up in one batch.
func (l *loop) run(ctx context.Context, out chan<- mesh.Batch) {
	l.look()
	batch := l.next()
	for {
		to := out
		if batch == nil {
			to = nil
		}
		select {
		case <-ctx.Done():
			return
		case to <- batch:
			l.delivered(batch)
		case event := <-l.dirs.Events():
			l.note(event)
			continue
		case err := <-l.dirs.Errors():
			l.log.Warn("events of the configuration directory may have been lost", "directory", l.root, "error", err)
			l.all = true
			l.burst.Note(l.o.Clock.Now())
			continue
		case <-l.o.Clock.After(l.wake().Sub(l.o.Clock.Now())):
			l.work()
		}
		batch = l.next()
	}
}

// next gives the batch to send, nil if there is none.
func (l *loop) next() mesh.Batch {
	if batch := l.store.batch(); batch != nil {
		return batch
	}
	if l.ready && len(l.unsure) == 0 && !l.synced {
		return mesh.Batch{{Op: mesh.Synced, Source: l.name}}
	}
	return nil
}

func (l *loop) delivered(batch mesh.Batch) {
	if batch[0].Op == mesh.Synced {
		l.synced = true
		return
	}
	l.store.delivered(batch)
}

// wake is when there is something to do if nothing happens.
func (l *loop) wake() time.Time {
	wake := l.looked.Add(l.o.Poll)
	if due, any := l.burst.Due(); any && due.Before(wake) {
		wake = due
	}
	for rel := range l.holding {
		if m := l.store.manifests[rel]; !l.missing && m.dropAt.Before(wake) {
			wake = m.dropAt
		}
	}
	return wake
}

// work does what is due.
func (l *loop) work() {
	now := l.o.Clock.Now()
	if due, any := l.burst.Due(); any && !due.After(now) {
		l.burst.End()
		if l.all || !l.rereadTouched() {
			l.look()
		}
	}
	if !l.looked.Add(l.o.Poll).After(now) {
		l.look()
	}
	l.drop(now)
}

// drop removes the objects that have been missing for longer than Hold. It reads their files again first, because this process may
// have been stopped, or an event delayed, while the file was completed. It removes nothing while the directory itself is missing.
func (l *loop) drop(now time.Time) {
	l.reread(l.overdue(now))
	for _, rel := range l.overdue(now) {
		m := l.store.manifests[rel]
		if l.unsure[rel] > 0 {
			m.dropAt = now.Add(l.o.Settle) // it is being written
			continue
		}
		delete(l.holding, rel)
		if m.gone {
			l.store.remove(rel)
		} else {
			l.store.change(rel, (*manifest).drop)
		}
	}
}

// overdue returns the files, sorted, whose missing objects are to be removed by now.
func (l *loop) overdue(now time.Time) []string {
	if l.missing {
		return nil
	}
	var list []string
	for rel := range l.holding {
		if !l.store.manifests[rel].dropAt.After(now) {
			list = append(list, rel)
		}
	}
	slices.Sort(list)
	return list
}

// note takes an event in.
func (l *loop) note(event fsnotify.Event) {
	known := l.dirs.Has(event.Name)
	l.dirs.Saw(event)
	rel, err := filepath.Rel(l.root, event.Name)
	inside := err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
	switch {
	case l.names[event.Name], known, inside && rel == ".":
		l.all = true
	case !inside || isHidden(filepath.ToSlash(rel)): // what is reached through hidden names is in names
		return
	case isManifest(rel):
		l.touched[filepath.ToSlash(rel)] = true
		l.all = l.all || l.linked
	case event.Has(fsnotify.Create) && mayLead(event.Name):
		l.all = true
	default:
		return
	}
	l.burst.Note(l.o.Clock.Now())
}

// mayLead says whether manifests may be found through a name: a directory, or a link to one.
func mayLead(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
}
