package offline

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// source is the name of the source of all events.
const source = "files"

// maxStdin is the largest manifest that is read from standard input.
const maxStdin = 256 << 20

// Objects are the objects of some files.
type Objects struct {
	// List has the valid objects. If several files have an object, it is that of the first file by
	// path.
	List map[config.Key]*config.Config
	// Broken are objects that have errors. The control plane keeps their last good version.
	Broken map[config.Key]bool
	// Problems are the Problems found by decoding.
	Problems []config.Problem
}

// File is a manifest.
type File struct {
	// Name is the path below the directory that was read, or as it was named.
	Name string
	Text []byte
}

// ReadFiles reads for each path a file, all manifests below a directory in the order of their
// paths, or standard input ("-"). Below a directory, hidden files and files other than .yaml, .yml
// and .json are ignored. It returns an error for more than maxStdin bytes of standard input.
func ReadFiles(paths []string, stdin io.Reader) ([]File, error) {
	var list []File
	for _, path := range paths {
		files, err := readPath(path, stdin)
		if err != nil {
			return nil, err
		}
		list = append(list, files...)
	}
	return list, nil
}

// readPath reads the files of one path of ReadFiles: a file, the manifests below a directory, or
// standard input if it is "-", up to maxStdin bytes. The names of files below a directory are
// relative to it; standard input is named "stdin". The first failure is an error.
func readPath(path string, stdin io.Reader) ([]File, error) {
	if path == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, maxStdin+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		if len(text) > maxStdin {
			return nil, fmt.Errorf("standard input has more than %d bytes", maxStdin)
		}
		return []File{{"stdin", text}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	paths := []string{path}
	if info.IsDir() {
		if paths, _, err = decode.ManifestsBelow(filepath.Clean(path)); err != nil {
			return nil, err
		}
		slices.Sort(paths)
	}
	var list []File
	for _, f := range paths {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		name := f
		if info.IsDir() {
			name = strings.TrimPrefix(strings.TrimPrefix(f, filepath.Clean(path)), string(filepath.Separator))
		}
		list = append(list, File{name, text})
	}
	return list, nil
}

// DecodeObjects returns the objects of one manifest. name selects the format, as in
// decode.Manifest. Mistakes are Problems of the result.
func DecodeObjects(name string, text []byte) *Objects {
	o := &Objects{List: map[config.Key]*config.Config{}, Broken: map[config.Key]bool{}}
	o.addManifest(name, text)
	return o
}

// addManifest adds the objects and the Problems of one manifest. The keys of invalid objects are
// recorded in o.Broken. If a key exists already, the first object stays, with a Problem. Foreign
// and unreadable documents only add their Problems.
func (o *Objects) addManifest(name string, text []byte) {
	for _, d := range decode.Manifest(name, text) {
		o.Problems = append(o.Problems, d.Problems...)
		switch {
		case d.Foreign || d.IsUnreadable():
		case d.Config == nil:
			o.Broken[d.Key] = true
		case o.List[d.Key] == nil:
			o.List[d.Key] = d.Config
		default:
			o.Problems = append(o.Problems, config.Problem{
				Code: code.DuplicateObject, Key: d.Key, Origin: d.Config.Origin, Severity: config.Error,
				Reason: "is also in " + o.List[d.Key].Origin + ", which takes precedence; this one is not used",
			})
		}
	}
}

// Overlay returns the objects of o and change, without the deleted objects. If both have an object,
// that of change is used; an object that is broken in change stays as in o. The Problems of both
// are kept, and their broken keys except the deleted ones. o and change are not modified.
func (o *Objects) Overlay(change *Objects, deleted ...config.Key) *Objects {
	next := &Objects{
		List: map[config.Key]*config.Config{}, Broken: map[config.Key]bool{},
		Problems: slices.Concat(o.Problems, change.Problems),
	}
	for _, x := range []*Objects{o, change} {
		for k, c := range x.List {
			next.List[k] = c
		}
		for k := range x.Broken {
			next.Broken[k] = true
		}
	}
	for _, k := range deleted {
		delete(next.List, k)
		delete(next.Broken, k)
	}
	return next
}

// changesTo returns the events that change o to next, sorted by key, and then one with the Problems
// of next. An object that is broken in next stays as it is. An object with the hash 0 is always an
// update.
func (o *Objects) changesTo(next *Objects) mesh.Batch {
	var batch mesh.Batch
	for k, c := range next.List {
		if before := o.List[k]; before == nil || before.Hash != c.Hash || c.Hash == 0 {
			batch = append(batch, mesh.Event{Op: mesh.Upsert, Source: source, Config: c})
		}
	}
	for k, c := range o.List {
		if next.List[k] == nil && !next.Broken[k] {
			batch = append(batch, mesh.Event{Op: mesh.Delete, Source: source, Config: c})
		}
	}
	slices.SortFunc(batch, func(a, b mesh.Event) int { return a.Config.Key.Compare(b.Config.Key) })
	return append(batch, mesh.Event{Source: source, Problems: &mesh.Problems{Scope: source, List: next.Problems}})
}
