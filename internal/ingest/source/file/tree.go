package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/watch"
)

// maxDepth bounds how deep directories are followed.
const maxDepth = 64

// tree is what one look at the directory found. Paths are relative to it, with slashes.
type tree struct {
	files map[string]os.FileInfo
	// unread are directories whose content could not be read: nothing is known of what is below them.
	unread map[string]error
	// names are paths outside of the directories that were read, or links in them, that decide where something leads.
	names map[string]bool
	// linked says that a directory was reached through a link: its events may come under another name.
	linked bool
}

// walker takes one look. Every directory is watched before it is read, so that no change falls in between.
type walker struct {
	root    string
	dirs    *watch.Dirs
	tree    tree
	watched []string
	errs    []error
}

// find finds all manifests below root. The error says that root itself cannot be read. Failures to watch do not keep
// anything from being read, and are given apart.
func find(root string, dirs *watch.Dirs) (found tree, unwatched, err error) {
	w := &walker{root: root, dirs: dirs, tree: tree{files: map[string]os.FileInfo{}, unread: map[string]error{}, names: map[string]bool{}}}
	w.follow(root)
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "read", Path: root, Err: errors.New("not a directory")}
	}
	if err == nil {
		w.directory("", info, nil)
		err = w.tree.unread[""]
	}
	dirs.Keep(w.watched)
	return w.tree, errors.Join(w.errs...), err
}

// follow notes the names that decide where a path leads, and watches the directories that they are in.
func (w *walker) follow(path string) {
	for _, name := range watch.Names(path) {
		w.tree.names[name] = true
		w.watch(filepath.Dir(name))
	}
}

func (w *walker) watch(dir string) {
	w.watched = append(w.watched, dir)
	if err := w.dirs.Add(dir); err != nil {
		w.errs = append(w.errs, err)
	}
}

// directory reads one directory. above are those that it is in: a link back to one of them is not followed.
func (w *walker) directory(rel string, self os.FileInfo, above []os.FileInfo) {
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
	w.watch(path)
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
			w.entry(strings.TrimPrefix(rel+"/"+entry.Name(), "/"), entry, above)
		}
	}
}

func (w *walker) entry(rel string, entry fs.DirEntry, above []os.FileInfo) {
	path := filepath.Join(w.root, filepath.FromSlash(rel))
	link := entry.Type()&fs.ModeSymlink != 0
	if link {
		w.follow(path)
	}
	if !link && !entry.IsDir() && !isManifest(rel) {
		return
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // gone meanwhile, or a link to nowhere
	case err != nil:
		w.tree.unread[rel] = err
	case info.IsDir():
		w.tree.linked = w.tree.linked || link
		w.directory(rel, info, above)
	case isManifest(rel):
		w.tree.files[rel] = info
	}
}

// isManifest says by the end of its name whether a file is read.
func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// isHidden says whether a path has a part that begins with a dot.
func isHidden(path string) bool {
	return strings.HasPrefix(path, ".") || strings.Contains(path, "/.")
}

// covers says whether rel is a directory's path, or below it.
func covers(dir, rel string) bool { return dir == "" || rel == dir || strings.HasPrefix(rel, dir+"/") }
