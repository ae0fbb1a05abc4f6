package kubelet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// files are the files of a volume, by their path in it.
type files map[string]file

type file struct {
	text  string
	mode  fs.FileMode
	group int // -1: root's
}

const defaultMode = 0o644

func (f files) addFile(path, text string, mode *int32) {
	one := file{text: text, mode: defaultMode, group: -1}
	if mode != nil {
		one.mode = fs.FileMode(*mode)
	}
	f[path] = one
}

// addItems adds the keys that items name at their paths, or all keys where there are no items.
func (f files) addItems(data map[string]string, items []corev1.KeyToPath, mode *int32) {
	if len(items) == 0 {
		for k, v := range data {
			f.addFile(k, v, mode)
		}
	}
	for _, item := range items {
		if v, ok := data[item.Key]; ok {
			if item.Mode != nil {
				mode = item.Mode
			}
			f.addFile(item.Path, v, mode)
		}
	}
}

// giveTo lets a group read all of them.
func (f files) giveTo(group int) {
	for path, one := range f {
		one.group, one.mode = group, one.mode|0o440
		f[path] = one
	}
}

// The names by which a kubelet changes a volume at once: its entries are links through ..data,
// which is a link itself, and is switched by a rename.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
)

// replaceIn makes a directory hold these files and no others. It does nothing if that is so
// already.
func (f files) replaceIn(dir string) error {
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && f.equalsDir(filepath.Join(dir, old)) {
		return nil
	}
	// A reader that has followed the link already may still open a file there: the replaced files
	// stay until the next change.
	if err := removeGenerations(dir, old); err != nil {
		return err
	}
	generation := ".." + time.Now().Format("2006_01_02_15_04_05.000000000")
	if err := f.writeTo(filepath.Join(dir, generation)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, newDataLink)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(generation, filepath.Join(dir, newDataLink)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, newDataLink), filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	return f.linkEntries(dir)
}

// removeGenerations removes all generations of a volume but one.
func removeGenerations(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..") && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// equalsDir reports whether a directory contains exactly these files.
func (f files) equalsDir(dir string) bool {
	count := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		count++
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if want, ok := f[name]; err != nil || !ok || want.text != string(text) {
			return errors.New("it is another")
		}
		return nil
	})
	return err == nil && count == len(f)
}

func (f files) writeTo(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, one := range f {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(one.text), one.mode); err != nil {
			return err
		}
		if err := os.Chown(path, -1, one.group); err != nil {
			return err
		}
		if err := os.Chmod(path, one.mode); err != nil { // whatever the umask is
			return err
		}
	}
	return nil
}

// linkEntries creates the links of current files, and removes the links of former ones.
func (f files) linkEntries(dir string) error {
	links := map[string]bool{}
	for name := range f {
		first, _, _ := strings.Cut(name, "/")
		links[first] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, ".."):
		case links[name]:
			delete(links, name)
		default:
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	for name := range links {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
