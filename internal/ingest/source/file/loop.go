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
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// emptyHold is the factor by which Options.Hold is longer for an empty file.
const emptyHold = 10

// maxUnsure limits how often a file is read again because it was modified during the reading.
const maxUnsure = 5

// loop is the state of Run. It belongs to one goroutine.
type loop struct {
	name  string
	root  string
	o     Options
	log   *slog.Logger
	dirs  *watch.Dirs
	store *store

	burst   watch.Burst
	touched map[string]bool // files with events since they were last read
	all     bool            // the whole tree must be scanned
	looked  time.Time       // the time of the last scan
	names   map[string]bool // see tree
	linked  bool            // see tree
	unsure  map[string]int  // how often files were modified while they were read
	holding map[string]bool // files with missing objects
	// missing is set if the directory itself did not exist at the last scan.
	missing bool
	// ready is set after the directory was read once, synced after Synced was sent.
	ready, synced bool
	unwatched     string // the last logged error of watches
}

// newLoop returns a loop that has read nothing, for the files below root and with the options of s.
// Without file system events dirs is nil.
func newLoop(s *Source, root string, dirs *watch.Dirs) *loop {
	return &loop{
		name: s.Name(), root: root, o: s.o, log: s.o.Logger, dirs: dirs, store: newStore(s.Name(), root),
		burst:   watch.Burst{Settle: s.o.Settle, Bound: 3 * s.o.Settle},
		touched: map[string]bool{}, unsure: map[string]int{}, names: map[string]bool{}, holding: map[string]bool{},
	}
}

// waitAndSend scans the tree, then waits for changes and sends batches until ctx ends. While the
// receiver is busy, changes are merged into one batch. Synced is sent after the first batch. When
// events may have been lost, it logs that and scans the tree again.
func (l *loop) waitAndSend(ctx context.Context, out chan<- mesh.Batch) {
	l.scanTree()
	batch := l.nextBatch()
	for {
		to := out
		if batch == nil {
			to = nil
		}
		select {
		case <-ctx.Done():
			return
		case to <- batch:
			l.markSent(batch)
		case event := <-l.dirs.Events():
			l.recordEvent(event)
			continue
		case err := <-l.dirs.Errors():
			l.log.Warn("events of the configuration directory may have been lost", "directory", l.root, "error", err)
			l.all = true
			l.burst.Note(l.o.Clock.Now())
			continue
		case <-l.o.Clock.After(l.nextWake().Sub(l.o.Clock.Now())):
			l.doDueWork()
		}
		batch = l.nextBatch()
	}
}

// nextBatch returns the batch to send, or nil if there is nothing. Synced follows once, when the
// first scan has been sent and no file is being written.
func (l *loop) nextBatch() mesh.Batch {
	if batch := l.store.pendingBatch(); batch != nil {
		return batch
	}
	if l.ready && len(l.unsure) == 0 && !l.synced {
		return mesh.Batch{{Op: mesh.Synced, Source: l.name}}
	}
	return nil
}

// markSent records that the batch of nextBatch, which is not empty, was sent: Synced or changes.
func (l *loop) markSent(batch mesh.Batch) {
	if batch[0].Op == mesh.Synced {
		l.synced = true
		return
	}
	l.store.markSent(batch)
}

// nextWake returns the time of the next work if no event occurs: the next poll, the end of a burst
// of events, or the removal of missing objects.
func (l *loop) nextWake() time.Time {
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

// doDueWork reads touched files when a burst of events has ended. It scans the tree instead if that
// is not enough (l.all, rereadTouched), and also when the poll interval has passed. It reads before
// it scans; a scan reads all changed files. Then it removes missing files whose grace period is
// over.
func (l *loop) doDueWork() {
	now := l.o.Clock.Now()
	if due, any := l.burst.Due(); any && !due.After(now) {
		l.burst.End()
		if l.all || !l.rereadTouched() {
			l.scanTree()
		}
	}
	if !l.looked.Add(l.o.Poll).After(now) {
		l.scanTree()
	}
	l.dropOverdue(now)
}

// dropOverdue removes the objects that have been missing for longer than Options.Hold. It reads
// their files again first, because this process may have been stopped, or an event delayed, while
// the file was completed. Files that are being written get another Options.Settle. While the
// directory itself is missing, nothing is removed.
func (l *loop) dropOverdue(now time.Time) {
	l.readFiles(l.overdue(now))
	for _, rel := range l.overdue(now) {
		m := l.store.manifests[rel]
		if l.unsure[rel] > 0 {
			m.dropAt = now.Add(l.o.Settle) // it is being written
			continue
		}
		delete(l.holding, rel)
		if m.gone {
			l.store.removeManifest(rel)
		} else {
			l.store.updateManifest(rel, (*manifest).dropMissing)
		}
	}
}

// overdue returns the files, sorted, whose missing objects must be removed by now. It returns nil
// while the directory is missing.
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

// recordEvent records which file must be read again after an event of the file system, or that the
// whole tree must be scanned. The latter is so for watched directories and names, new entries that
// may contain manifests, and each manifest while the tree has links. It ignores hidden files, files
// that are no manifests, and events outside of the directory.
func (l *loop) recordEvent(event fsnotify.Event) {
	known := l.dirs.Has(event.Name)
	l.dirs.Saw(event)
	rel, err := filepath.Rel(l.root, event.Name)
	inside := err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
	switch {
	case l.names[event.Name], known, inside && rel == ".":
		l.all = true
	case !inside || isHidden(filepath.ToSlash(rel)): // files behind hidden names are in names
		return
	case decode.IsManifest(rel):
		l.touched[filepath.ToSlash(rel)] = true
		l.all = l.all || l.linked
	case event.Has(fsnotify.Create) && mayContainManifests(event.Name):
		l.all = true
	default:
		return
	}
	l.burst.Note(l.o.Clock.Now())
}

// mayContainManifests reports whether a path is a directory or a symbolic link, so that it may
// contain manifests. It returns false if the path cannot be examined.
func mayContainManifests(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
}
