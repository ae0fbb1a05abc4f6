package file

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// store contains the objects of all files and the sent state. Its batches are the difference.
type store struct {
	source, root string
	manifests    map[string]*manifest
	// filesByObject lists the files that contain an object, sorted by path. Only the object of the
	// first file is effective.
	filesByObject map[config.Key][]string
	// own are Problems that belong to no file: problems of the directory and of directories below
	// it.
	own map[string][]config.Problem

	sent         map[config.Key]*config.Config
	sentProblems map[string][]config.Problem
	// The following may differ from the sent state.
	keys   map[config.Key]bool
	scopes map[string]bool
}

// newStore returns a store without files that has sent nothing.
func newStore(source, root string) *store {
	return &store{
		source: source, root: root, manifests: map[string]*manifest{}, filesByObject: map[config.Key][]string{},
		own: map[string][]config.Problem{}, sent: map[config.Key]*config.Config{},
		sentProblems: map[string][]config.Problem{}, keys: map[config.Key]bool{}, scopes: map[string]bool{},
	}
}

// problemScope returns the scope of the Problems of a path below the root: its absolute path.
func (s *store) problemScope(rel string) string {
	return filepath.Join(s.root, filepath.FromSlash(rel))
}

// updateManifest calls change with the manifest of a file, which it creates if necessary, and marks
// the objects and Problems that may differ.
func (s *store) updateManifest(rel string, change func(m *manifest)) {
	m := s.manifests[rel]
	if m == nil {
		m = &manifest{rel: rel}
		s.manifests[rel] = m
	}
	before := m.objects
	change(m)
	s.markChanged(rel, before, m.objects)
}

// removeManifest removes the manifest of a file, and marks its objects as changed. The file must be
// known.
func (s *store) removeManifest(rel string) {
	m := s.manifests[rel]
	delete(s.manifests, rel)
	s.markChanged(rel, m.objects, nil)
}

// markChanged updates the index of files by object and marks what may differ, after the objects of
// file rel changed from before to after. That includes the Problems of other files with these
// objects.
func (s *store) markChanged(rel string, before, after map[config.Key]*config.Config) {
	s.scopes[rel] = true
	for key := range after {
		s.keys[key] = true
		if i, there := slices.BinarySearch(s.filesByObject[key], rel); !there {
			s.filesByObject[key] = slices.Insert(s.filesByObject[key], i, rel)
		}
		s.markOthers(key)
	}
	for key := range before {
		if after[key] != nil {
			continue
		}
		s.keys[key] = true
		s.markOthers(key)
		if i, there := slices.BinarySearch(s.filesByObject[key], rel); there {
			s.filesByObject[key] = slices.Delete(s.filesByObject[key], i, i+1)
		}
		if len(s.filesByObject[key]) == 0 {
			delete(s.filesByObject, key)
		}
	}
}

// markOthers marks the Problems of all files that contain an object as possibly changed, because
// only the object of the first file is effective.
func (s *store) markOthers(key config.Key) {
	for _, rel := range s.filesByObject[key] {
		s.scopes[rel] = true
	}
}

// setProblem sets the Problem of a directory that cannot be read; a nil error resolves it. rel is
// "" for the root.
func (s *store) setProblem(rel string, err error) {
	if err == nil {
		delete(s.own, rel)
	} else {
		s.own[rel] = []config.Problem{unreadableProblem(cmp.Or(rel, s.root), err)}
	}
	s.scopes[rel] = true
}

// unreadableProblem returns an Error about a file or directory that cannot be read, whose last
// content stays in use. Its Origin is path, which the reason does not repeat.
func unreadableProblem(path string, err error) config.Problem {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is named separately
	}
	return config.Problem{
		Code:   code.UnreadableSource,
		Origin: path, Severity: config.Error,
		Reason: "cannot be read, the last content read stays in use: " + err.Error(),
	}
}

// effectiveObject returns the object with this key from the file whose path sorts first among the
// files that contain it. The objects of the other files have no effect. It returns nil if no file
// contains the key.
func (s *store) effectiveObject(key config.Key) *config.Config {
	claims := s.filesByObject[key]
	if len(claims) == 0 {
		return nil
	}
	return s.manifests[claims[0]].objects[key]
}

// problems returns all Problems of a path, sorted and without duplicates: of the directory or file,
// of its objects, and one for each object that another file defines first.
func (s *store) problems(rel string) []config.Problem {
	list := slices.Clone(s.own[rel])
	if m := s.manifests[rel]; m != nil {
		list = append(append(list, m.unreadable...), m.problems...)
		for key, c := range m.objects {
			if s.filesByObject[key][0] != rel {
				list = append(list, duplicateProblem(c, s.effectiveObject(key)))
			}
		}
	}
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// pendingBatch returns the differences to the sent state: objects sorted by key, then Problems
// sorted by scope. It returns nil if there are none. If it returns nil, it clears the marks.
func (s *store) pendingBatch() mesh.Batch {
	var out mesh.Batch
	for _, key := range slices.SortedFunc(maps.Keys(s.keys), config.Key.Compare) {
		switch c, sent := s.effectiveObject(key), s.sent[key]; {
		case c == nil && sent != nil:
			out = append(
				out,
				mesh.Event{Op: mesh.Delete, Source: s.source, Config: &config.Config{Meta: config.Meta{Key: key}}},
			)
		case c != nil && (sent == nil || mustSend(c, sent)):
			out = append(out, mesh.Event{Op: mesh.Upsert, Source: s.source, Config: c})
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(s.scopes)) {
		if list := s.problems(rel); !slices.Equal(list, s.sentProblems[rel]) {
			out = append(
				out,
				mesh.Event{
					Op:       mesh.Upsert,
					Source:   s.source,
					Problems: &mesh.Problems{Scope: s.problemScope(rel), List: list},
				},
			)
		}
	}
	if out == nil {
		s.clearMarks()
	}
	return out
}

// clearMarks clears the marks.
func (s *store) clearMarks() {
	clear(s.keys)
	clear(s.scopes)
}

// markSent records that the objects in batch, which pendingBatch returned, and the Problems of all
// marked files were sent. Then it clears the marks.
func (s *store) markSent(batch mesh.Batch) {
	for _, e := range batch {
		if e.Config != nil && e.Op == mesh.Delete {
			delete(s.sent, e.Config.Key)
		} else if e.Config != nil {
			s.sent[e.Config.Key] = e.Config
		}
	}
	for rel := range s.scopes {
		if list := s.problems(rel); len(list) > 0 {
			s.sentProblems[rel] = list
		} else {
			delete(s.sentProblems, rel)
		}
	}
	s.clearMarks()
}

// mustSend reports whether the object a differs from b, which was sent, in its hash or in metadata
// that users see: origin, resource version and generation.
func mustSend(a, b *config.Config) bool {
	return a.Hash != b.Hash || a.Origin != b.Origin || a.ResourceVersion != b.ResourceVersion ||
		a.Generation != b.Generation
}
