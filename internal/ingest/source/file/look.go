package file

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// look looks at the whole tree, and reads what seems to have changed.
func (l *loop) look() {
	l.looked = l.o.Clock.Now()
	found, unwatched, err := find(l.root, l.dirs)
	l.warnUnwatched(unwatched)
	l.names, l.linked = found.names, found.linked
	l.all = false
	l.store.problem("", err)
	if err != nil {
		l.missing = true
		clear(l.touched)
		clear(l.unsure)
		return // what was last read stays
	}
	l.mendDirectories(found)
	maps.DeleteFunc(l.unsure, func(rel string, _ int) bool { return found.files[rel] == nil })
	list := slices.Collect(maps.Keys(found.files))
	list = slices.DeleteFunc(list, func(rel string) bool {
		m := l.store.manifests[rel]
		return m != nil && m.unchanged(found.files[rel]) && !l.touched[rel]
	})
	clear(l.touched)
	slices.Sort(list)
	l.reread(list)
	for _, rel := range slices.Sorted(maps.Keys(l.store.manifests)) {
		if _, there := found.files[rel]; !there && !below(found.unread, rel) {
			l.gone(rel, l.missing)
		}
	}
	l.missing = false
	l.ready = true
}

// mendDirectories reports directories that cannot be read, and those that can be again.
func (l *loop) mendDirectories(found tree) {
	for rel := range l.store.own {
		if found.unread[rel] == nil {
			l.store.problem(rel, nil)
		}
	}
	for rel, err := range found.unread {
		l.store.problem(rel, err)
	}
}

// below says whether a path is in a directory that could not be read.
func below(unread map[string]error, rel string) bool {
	for dir := range unread {
		if covers(dir, rel) {
			return true
		}
	}
	return false
}

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

// reread reads files and takes over what is in them.
func (l *loop) reread(list []string) {
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
				l.gone(r.rel, false)
			}
		case r.err != nil:
			l.store.change(r.rel, func(m *manifest) {
				m.gone, m.unreadable = false, []config.Problem{unreadable(r.rel, r.err)}
			})
		default:
			l.store.change(r.rel, func(m *manifest) { l.accept(m, r) })
		}
	}
}

// accept takes a reading over.
func (l *loop) accept(m *manifest, r reading) {
	now := l.o.Clock.Now()
	// A file with another identity was written before it was put here, so it is complete.
	inPlace := m.info.SameFile(r.info)
	m.info, m.read, m.unreadable = r.info, now, nil
	if r.same {
		return
	}
	m.take(r, inPlace)
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

// gone removes a file that is not there any more: at once, or, where the whole directory went and came back, after a
// while, because it may only not be there yet.
func (l *loop) gone(rel string, later bool) {
	m := l.store.manifests[rel]
	switch {
	case later && len(m.objects) > 0:
		m.gone, m.known = true, false
		l.holding[rel], m.dropAt = true, l.o.Clock.Now().Add(l.o.Hold)
	case !m.gone:
		delete(l.holding, rel)
		l.store.remove(rel)
	}
}

// rereadTouched reads the files that had events. It gives false if one of them is no plain file: then it takes a look at
// the whole tree to know what it is, or whether the tree is there at all.
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
	l.reread(list)
	return true
}
