package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// maxDepth limits the depth of nested directories.
const maxDepth = 64

// tree is the result of one scan. Paths are relative to the directory and use slashes.
type tree struct {
	files map[string]os.FileInfo
	// unread are the directories whose content could not be read. Nothing is known about paths
	// below them.
	unread map[string]error
	// names are paths outside of the scanned directories, and links inside, that determine where a
	// path resolves to.
	names map[string]bool
	// linked is set if a directory was reached through a link: its events may have another name.
	linked bool
}

// walker performs one scan. It watches each directory before reading it, so that no change is
// missed in between.
type walker struct {
	root    string
	dirs    *watch.Dirs
	tree    tree
	watched []string
	errs    []error
}

// scanFiles returns the state of all manifest files below root, without reading the files. It
// watches their directories, and stops watching others; a nil dirs watches nothing. Directories
// that cannot be read are recorded in found with the error. err is set if root itself cannot be
// read; unwatched joins the failures to watch.
func scanFiles(root string, dirs *watch.Dirs) (found tree, unwatched, err error) {
	w := &walker{
		root: root,
		dirs: dirs,
		tree: tree{files: map[string]os.FileInfo{}, unread: map[string]error{}, names: map[string]bool{}},
	}
	w.recordNames(root)
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "read", Path: root, Err: errors.New("not a directory")}
	}
	if err == nil {
		w.readDirectory("", info, nil)
		err = w.tree.unread[""]
	}
	dirs.Keep(w.watched)
	return w.tree, errors.Join(w.errs...), err
}

// recordNames records the names on which it depends where a path resolves to, through links, and
// watches their directories.
func (w *walker) recordNames(path string) {
	names, err := w.dirs.AddNames(path)
	for _, name := range names {
		w.tree.names[name] = true
		w.watched = append(w.watched, filepath.Dir(name))
	}
	if err != nil {
		w.errs = append(w.errs, err)
	}
}

// watchDirectory watches a directory and records a failure.
func (w *walker) watchDirectory(dir string) {
	w.watched = append(w.watched, dir)
	if err := w.dirs.Add(dir); err != nil {
		w.errs = append(w.errs, err)
	}
}

// readDirectory reads one directory and those below it into w.tree, and watches them. above are its
// parents: a link to one of them is not followed. Directories that cannot be read or are nested too
// deep are recorded in unread; a directory that does not exist any longer is ignored unless it is
// the root. Hidden names are skipped.
func (w *walker) readDirectory(rel string, self os.FileInfo, above []os.FileInfo) {
	for _, a := range above {
		if os.SameFile(a, self) {
			return
		}
	}
	if len(above) > maxDepth {
		w.tree.unread[rel] = fmt.Errorf("directories are nested more than %d deep", maxDepth)
		return
	}
	path := filepath.Join(w.root, filepath.FromSlash(rel))
	w.watchDirectory(path)
	entries, err := os.ReadDir(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) || rel == "" {
			w.tree.unread[rel] = err
		}
		return
	}
	above = append(above[:len(above):len(above)], self)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			w.readEntry(strings.TrimPrefix(rel+"/"+entry.Name(), "/"), entry, above)
		}
	}
}

// readEntry records a manifest, or reads a directory, also through a link. An entry that cannot be
// examined is recorded in unread. Other files, and entries that do not exist any longer, are
// ignored.
func (w *walker) readEntry(rel string, entry fs.DirEntry, above []os.FileInfo) {
	path := filepath.Join(w.root, filepath.FromSlash(rel))
	link := entry.Type()&fs.ModeSymlink != 0
	if link {
		w.recordNames(path)
	}
	if !link && !entry.IsDir() && !decode.IsManifest(rel) {
		return
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // deleted during the scan, or a dangling link
	case err != nil:
		w.tree.unread[rel] = err
	case info.IsDir():
		w.tree.linked = w.tree.linked || link
		w.readDirectory(rel, info, above)
	case decode.IsManifest(rel):
		w.tree.files[rel] = info
	}
}

// isHidden reports whether an element of the path begins with a dot.
func isHidden(path string) bool {
	return strings.HasPrefix(path, ".") || strings.Contains(path, "/.")
}

// isAtOrBelow reports whether rel is the path of the directory or below it. All paths are below "".
func isAtOrBelow(dir, rel string) bool {
	return dir == "" || rel == dir || strings.HasPrefix(rel, dir+"/")
}
