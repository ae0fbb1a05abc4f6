package file

import (
	"path/filepath"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// positionSearch is the state of one call of Locate: each file is looked at once.
type positionSearch struct {
	*Positions
	opened map[string]*openedFile
}

// openedFile is a file during one call of Locate.
type openedFile struct {
	*locatedFile
	path, name string
	// failed is set if the file cannot be read, is too large, or is being written.
	failed bool
	// text, locator and documents, the decoded objects by document, are set after the file was
	// read.
	text      []byte
	locator   *decode.Locator
	documents map[int][]decode.Decoded
}

// find returns the position of a field in the first directory whose file has the object. at is the
// position of the object. It returns false if there is none. The result is remembered for the
// version of the file.
func (s *positionSearch) find(at decode.Origin, field locatedField) (decode.Origin, bool) {
	for _, dir := range s.dirs {
		f := s.open(filepath.Join(dir, filepath.FromSlash(at.File)), at.File)
		if _, known := f.found[field]; !known && s.load(f) {
			f.found[field] = f.locate(at, field)
		}
		if found := f.found[field]; found != (decode.Origin{}) {
			return found, true
		}
	}
	return decode.Origin{}, false
}

// open returns a file as it is now, with the positions that are known of that version. name is its
// path below the directory. A file that cannot be examined has no positions.
func (s *positionSearch) open(path, name string) *openedFile {
	if f := s.opened[path]; f != nil {
		return f
	}
	f := &openedFile{locatedFile: s.files[path], path: path, name: name}
	s.opened[path] = f
	info, err := watch.Stat(path)
	switch {
	case err != nil:
		delete(s.files, path)
		f.locatedFile, f.failed = new(locatedFile), true
	case f.locatedFile == nil || !isSameVersion(f.info, info):
		f.locatedFile = &locatedFile{info: info, found: map[locatedField]decode.Origin{}}
		s.files[path] = f.locatedFile
	}
	return f
}

// load reads a file, unless this call has read it already. It returns false if the file cannot be
// read, is too large, or is no longer the version that open has found.
func (s *positionSearch) load(f *openedFile) bool {
	if f.failed || f.locator != nil {
		return !f.failed
	}
	f.failed = true
	if f.info.Size() > maxLocatedSize {
		return false
	}
	text, look, err := s.read(f.path)
	if err != nil || !look.Stable || !isSameVersion(f.info, look.Info) {
		return false
	}
	f.failed, f.text, f.locator, f.documents = false, text, decode.NewLocator(f.name, text), map[int][]decode.Decoded{}
	return true
}

// isSameVersion reports whether two descriptions are of one file that was not modified in between.
func isSameVersion(a, b watch.Info) bool {
	return a.SameFile(b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// locate returns the position of a field in a file that was read. at is the position of the object.
// It returns zero if the file does not have that version of the object there, or no position for
// the field.
func (f *openedFile) locate(at decode.Origin, field locatedField) decode.Origin {
	objects, decoded := f.documents[at.Document]
	if !decoded {
		objects = decode.Document(f.name, f.text, at.Document)
		f.documents[at.Document] = objects
	}
	for _, d := range objects {
		if d.Config == nil || d.Key != field.object || d.Config.Origin != field.origin ||
			field.hash != 0 && field.hash != d.Config.Hash {
			continue
		}
		if line, column := f.locator.Position(at.Document, d.Within, field.field); line > 0 {
			return decode.Origin{File: f.name, Document: at.Document, Line: line, Column: column}
		}
	}
	return decode.Origin{}
}
