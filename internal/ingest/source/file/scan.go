package file

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// scanTree scans the whole tree, reads files that seem to have changed or were touched, and removes
// the objects of files that no longer exist. If the directory was missing before, these are kept
// for Options.Hold. Files below directories that cannot be read stay, with a Problem. If the
// directory itself cannot be read, it reports a Problem and keeps the last state.
func (l *loop) scanTree() {
	l.looked = l.o.Clock.Now()
	found, unwatched, err := scanFiles(l.root, l.dirs)
	l.warnUnwatched(unwatched)
	l.names, l.linked = found.names, found.linked
	l.all = false
	l.store.setProblem("", err)
	if err != nil {
		l.missing = true
		clear(l.touched)
		clear(l.unsure)
		return // the last state stays in use
	}
	l.reportDirectories(found)
	maps.DeleteFunc(l.unsure, func(rel string, _ int) bool { return found.files[rel] == nil })
	list := slices.Collect(maps.Keys(found.files))
	list = slices.DeleteFunc(list, func(rel string) bool {
		m := l.store.manifests[rel]
		return m != nil && m.isUnchanged(found.files[rel]) && !l.touched[rel]
	})
	clear(l.touched)
	slices.Sort(list)
	l.readFiles(list)
	for _, rel := range slices.Sorted(maps.Keys(l.store.manifests)) {
		if _, there := found.files[rel]; !there && !isBelowUnread(found.unread, rel) {
			l.removeFile(rel, l.missing)
		}
	}
	l.missing = false
	l.ready = true
}

// reportDirectories records a Problem for each entry in found.unread, and resolves the Problems of
// directories that can be read again.
func (l *loop) reportDirectories(found tree) {
	for rel := range l.store.own {
		if found.unread[rel] == nil {
			l.store.setProblem(rel, nil)
		}
	}
	for rel, err := range found.unread {
		l.store.setProblem(rel, err)
	}
}

// isBelowUnread reports whether a path is one of the directories in unread, or below one of them.
func isBelowUnread(unread map[string]error, rel string) bool {
	for dir := range unread {
		if isAtOrBelow(dir, rel) {
			return true
		}
	}
	return false
}

// warnUnwatched logs that changes of some directories are noticed only by polling, once for each
// error text. A nil err resets that.
func (l *loop) warnUnwatched(err error) {
	if err == nil {
		l.unwatched = ""
		return
	}
	if err.Error() != l.unwatched {
		l.unwatched = err.Error()
		l.log.Warn("changes of some directories are only seen from time to time", "every", l.o.Poll, "error", err)
	}
}

// readFiles reads files and applies their contents. A file that is being written is read again
// later, up to maxUnsure times in a row, and then used as it is. A missing file is removed; an
// unreadable one keeps its objects, with a Problem. It logs the number at debug level.
func (l *loop) readFiles(list []string) {
	if len(list) > 0 {
		l.log.Debug("read configuration files", "directory", l.root, "files", len(list))
	}
	for _, r := range l.readTogether(list) {
		if r.unsure && l.unsure[r.rel] < maxUnsure {
			l.unsure[r.rel]++
			l.touched[r.rel] = true
			l.burst.Note(l.o.Clock.Now())
			continue
		}
		delete(l.unsure, r.rel)
		switch {
		case r.gone:
			if l.store.manifests[r.rel] != nil {
				l.removeFile(r.rel, false)
			}
		case r.err != nil:
			l.store.updateManifest(r.rel, func(m *manifest) {
				m.gone, m.unreadable = false, []config.Problem{unreadableProblem(r.rel, r.err)}
			})
		default:
			l.store.updateManifest(r.rel, func(m *manifest) { l.applyReading(m, r) })
		}
	}
}

// applyReading applies a successful reading to the manifest of its file; unchanged content is only
// recorded as read. Objects that are missing from a file written in place are kept for
// Options.Hold, longer if the file is empty. Of a file that was replaced by another one they are
// removed at once.
func (l *loop) applyReading(m *manifest, r reading) {
	now := l.o.Clock.Now()
	// A file with another identity was written before it was moved here, so it is complete.
	inPlace := m.info.SameFile(r.info)
	m.info, m.read, m.unreadable = r.info, now, nil
	if r.same {
		return
	}
	m.replaceObjects(r, inPlace)
	m.gone = false
	delete(l.holding, m.rel)
	if len(m.missing) > 0 {
		hold := l.o.Hold
		if len(r.objects) == 0 {
			hold *= emptyHold
		}
		l.holding[m.rel], m.dropAt = true, now.Add(hold)
	}
}

// removeFile removes a file that no longer exists, with its objects. If later is set, because the
// whole directory disappeared and came back, the objects are kept for Options.Hold: the file may
// reappear. A file that is kept in this way stays until dropOverdue removes it.
func (l *loop) removeFile(rel string, later bool) {
	m := l.store.manifests[rel]
	switch {
	case later && len(m.objects) > 0:
		m.gone, m.known = true, false
		l.holding[rel], m.dropAt = true, l.o.Clock.Now().Add(l.o.Hold)
	case !m.gone:
		delete(l.holding, rel)
		l.store.removeManifest(rel)
	}
}

// rereadTouched reads the files that had events. It returns false without reading if one of them is
// not a regular file or the directory itself is missing; then the caller must scan the whole tree.
// A file that was deleted is read as missing.
func (l *loop) rereadTouched() bool {
	list := slices.Sorted(maps.Keys(l.touched))
	for _, rel := range list {
		info, err := os.Lstat(filepath.Join(l.root, filepath.FromSlash(rel)))
		switch {
		case err == nil && !info.Mode().IsRegular():
			return false
		case err != nil:
			if _, err := os.Stat(l.root); err != nil {
				return false
			}
		}
	}
	clear(l.touched)
	l.readFiles(list)
	return true
}
