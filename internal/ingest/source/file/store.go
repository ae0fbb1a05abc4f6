package file

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// store knows which objects there are, in which files, and what of them was sent. Its batches are the difference.
type store struct {
	source, root string
	manifests    map[string]*manifest
	// claims are the files that have an object, in the order of their paths; the first one counts.
	claims map[config.Key][]string
	// own are Problems that are of no file: of the directory, or of one below it.
	own map[string][]config.Problem

	sent         map[config.Key]*config.Config
	sentProblems map[string][]config.Problem
	// What may differ from what was sent.
	keys   map[config.Key]bool
	scopes map[string]bool
}

func newStore(source, root string) *store {
	return &store{
		source: source, root: root, manifests: map[string]*manifest{}, claims: map[config.Key][]string{},
		own: map[string][]config.Problem{}, sent: map[config.Key]*config.Config{},
		sentProblems: map[string][]config.Problem{}, keys: map[config.Key]bool{}, scopes: map[string]bool{},
	}
}

// scope is the scope of a path's Problems.
func (s *store) scope(rel string) string { return filepath.Join(s.root, filepath.FromSlash(rel)) }

// change changes a manifest, or makes a new one, and takes note of what that may change for others.
func (s *store) change(rel string, change func(m *manifest)) {
	m := s.manifests[rel]
	if m == nil {
		m = &manifest{rel: rel}
		s.manifests[rel] = m
	}
	before := m.objects
	change(m)
	s.touch(rel, before, m.objects)
}

// remove forgets a file and its objects.
func (s *store) remove(rel string) {
	m := s.manifests[rel]
	delete(s.manifests, rel)
	s.touch(rel, m.objects, nil)
}

// touch notes that the objects of a file are others than before.
func (s *store) touch(rel string, before, after map[config.Key]*config.Config) {
	s.scopes[rel] = true
	for key := range after {
		s.keys[key] = true
		if i, there := slices.BinarySearch(s.claims[key], rel); !there {
			s.claims[key] = slices.Insert(s.claims[key], i, rel)
		}
		s.touchOthers(key)
	}
	for key := range before {
		if after[key] != nil {
			continue
		}
		s.keys[key] = true
		s.touchOthers(key)
		if i, there := slices.BinarySearch(s.claims[key], rel); there {
			s.claims[key] = slices.Delete(s.claims[key], i, i+1)
		}
		if len(s.claims[key]) == 0 {
			delete(s.claims, key)
		}
	}
}

// touchOthers notes that the Problems of all files that have an object may be others: only one of them counts.
func (s *store) touchOthers(key config.Key) {
	for _, rel := range s.claims[key] {
		s.scopes[rel] = true
	}
}

// problem sets the one Problem of something that is not a manifest; nil mends it.
func (s *store) problem(rel string, err error) {
	if err == nil {
		delete(s.own, rel)
	} else {
		s.own[rel] = []config.Problem{unreadable(cmp.Or(rel, s.root), err)}
	}
	s.scopes[rel] = true
}

// unreadable is the Problem of a file or directory that cannot be read.
func unreadable(path string, err error) config.Problem {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the path is named already
	}
	return config.Problem{
		Origin: path, Severity: config.Error, Reason: "cannot be read, what was last read from it stays: " + err.Error(),
	}
}

// counting gives the object that counts of all that have the key, nil if none has.
func (s *store) counting(key config.Key) *config.Config {
	claims := s.claims[key]
	if len(claims) == 0 {
		return nil
	}
	return s.manifests[claims[0]].objects[key]
}

// problems gives all Problems of a scope, sorted.
func (s *store) problems(rel string) []config.Problem {
	list := slices.Clone(s.own[rel])
	if m := s.manifests[rel]; m != nil {
		list = append(append(list, m.unreadable...), m.problems...)
		for key, c := range m.objects {
			if s.claims[key][0] != rel {
				list = append(list, duplicate(c, s.counting(key)))
			}
		}
	}
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// batch gives what has changed since the last batch that was sent: objects in the order of their keys, then Problems in
// the order of their scopes. It is nil if nothing has.
func (s *store) batch() mesh.Batch {
	var out mesh.Batch
	for _, key := range slices.SortedFunc(maps.Keys(s.keys), config.Key.Compare) {
		switch c, sent := s.counting(key), s.sent[key]; {
		case c == nil && sent != nil:
			out = append(out, mesh.Event{Op: mesh.Delete, Source: s.source, Config: &config.Config{Meta: config.Meta{Key: key}}})
		case c != nil && (sent == nil || differs(c, sent)):
			out = append(out, mesh.Event{Op: mesh.Upsert, Source: s.source, Config: c})
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(s.scopes)) {
		if list := s.problems(rel); !slices.Equal(list, s.sentProblems[rel]) {
			out = append(out, mesh.Event{Op: mesh.Upsert, Source: s.source, Problems: &mesh.Problems{Scope: s.scope(rel), List: list}})
		}
	}
	if out == nil {
		s.settled()
	}
	return out
}

// settled notes that nothing differs from what was sent.
func (s *store) settled() {
	clear(s.keys)
	clear(s.scopes)
}

// delivered notes that the batch, made of the present state, was sent.
func (s *store) delivered(batch mesh.Batch) {
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
	s.settled()
}

// differs says whether an object has to be sent in the place of another. With equal hashes configuration stays as it
// is, but people are shown the rest.
func differs(a, b *config.Config) bool {
	return a.Hash != b.Hash || a.Origin != b.Origin || a.ResourceVersion != b.ResourceVersion || a.Generation != b.Generation
}
