package file

import (
	"path/filepath"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// maxLocatedSize bounds the size of files in which Positions searches, in bytes: parsing a larger
// document takes seconds.
const maxLocatedSize = 8 << 20

// Positions finds the lines and columns of fields in the files of sources. Problems that are found
// when a file is read have them already; checks of a whole mesh know only the line of the object.
//
// A file is read again, at most once per call of Locate, for the first Problem of a field, and
// after it was modified. Nothing of its text is kept. A Positions is safe for concurrent use.
type Positions struct {
	read func(path string) ([]byte, watch.Look, error)

	mu    sync.Mutex
	dirs  []string
	files map[string]*locatedFile // by path
}

// locatedFile is what is known of one version of a file.
type locatedFile struct {
	info watch.Info
	// found has the position of each field that was asked for. It is zero if the file does not have
	// the object in that version.
	found map[locatedField]decode.Origin
}

// locatedField names a field of one version of an object. hash is 0 if the version is not known.
type locatedField struct {
	object config.Key
	origin string
	field  string
	hash   uint64
}

// NewPositions returns a Positions without directories.
func NewPositions() *Positions {
	return &Positions{read: watch.Read, files: map[string]*locatedFile{}}
}

// AddDirectory adds the directory of a source. Directories of a higher precedence must be added
// first.
func (x *Positions) AddDirectory(dir string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dirs = append(x.dirs, dir)
}

// Locate returns list with the position of the field, instead of that of the object, in the Origin
// of each Problem of a field in a file. current returns the version of an object that is in use, or
// nil if it is not known. An Origin stays as it is if the file cannot be read, is too large, or has
// another version of the object now. The list itself is not modified. It may be called by any
// goroutine.
func (x *Positions) Locate(list []config.Problem, current func(config.Key) *config.Config) []config.Problem {
	x.mu.Lock()
	defer x.mu.Unlock()
	search := positionSearch{Positions: x, opened: map[string]*openedFile{}}
	out := list
	for i, p := range list {
		at, ok := decode.ParseOrigin(p.Origin)
		if !ok || at.Column > 0 || p.Field == "" || p.Key == (config.Key{}) || !filepath.IsLocal(at.File) {
			continue
		}
		f := locatedField{object: p.Key, origin: p.Origin, field: p.Field}
		if c := current(p.Key); c != nil {
			f.hash = c.Hash
		}
		found, ok := search.find(at, f)
		if !ok {
			continue
		}
		if &out[0] == &list[0] {
			out = slices.Clone(list)
		}
		out[i].Origin = found.String()
	}
	return out
}
