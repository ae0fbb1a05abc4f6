package file

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// reading is the result of reading one file.
type reading struct {
	rel  string
	info watch.Info
	hash uint64 // of the content
	// same is set if the content is unchanged, so that it was not decoded again.
	same    bool
	unsure  bool // it was modified while it was read
	gone    bool
	err     error
	objects []decode.Decoded
}

// readAll reads files concurrently and returns the results in the order of list. before has the
// manifests that were read last. A panic becomes the error of its file; without Options.Recovery it
// propagates.
func (o *Options) readAll(root string, list []string, before map[string]*manifest) []reading {
	out := make([]reading, len(list))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, rel := range list {
		group.Go(func() error {
			if err := o.Recovery.Call("source", func() error { out[i] = o.readOne(root, rel, before[rel]); return nil },
				"file", rel); err != nil {
				out[i] = reading{
					rel: rel,
					err: fmt.Errorf("internal error, please report it with the control plane's log: %w", err),
				}
			}
			return nil
		})
	}
	_ = group.Wait() // never returns an error
	return out
}

// readOne reads a file and decodes its objects, without the ones that the options exclude. same is
// set, and nothing decoded, if the content is that of before, which may be nil. err is set if it
// cannot be read, and gone if it does not exist. A file that changes during the read is unsure.
func (o *Options) readOne(root, rel string, before *manifest) reading {
	content, look, err := watch.Read(filepath.Join(root, filepath.FromSlash(rel)))
	if err != nil {
		return reading{rel: rel, gone: errors.Is(err, fs.ErrNotExist), err: err}
	}
	r := reading{rel: rel, info: look.Info, unsure: !look.Stable, hash: xxhash.Sum64(content)}
	if before != nil && before.known && before.hash == r.hash {
		r.same = true
		return r
	}
	r.objects = slices.DeleteFunc(decode.Manifest(rel, content), o.excludes)
	return r
}

// excludes reports whether an object is in a namespace that is not read. An object of a kind that
// is not read, or whose name is not known, is excluded by the namespace that its text has. Objects
// without a namespace are never excluded, and without Options.Namespaces none is.
func (o *Options) excludes(d decode.Decoded) bool {
	namespace := d.Key.Namespace
	if namespace == "" && len(d.Problems) > 0 {
		namespace = d.Problems[0].Key.Namespace
	}
	return len(o.Namespaces) > 0 && namespace != "" && !slices.Contains(o.Namespaces, namespace)
}

// manifest is the state of one file.
type manifest struct {
	rel string
	// known is set if the content is known. hash is its hash.
	known bool
	hash  uint64
	info  watch.Info
	read  time.Time
	// objects are the valid objects of the file, and former ones that are kept.
	objects map[config.Key]*config.Config
	// missing are the objects that are kept only until dropAt, because the file no longer contained
	// them after a modification in place.
	missing map[config.Key]bool
	dropAt  time.Time
	// gone is set if the file itself is missing.
	gone bool
	// problems are about the content, unreadable about the file itself.
	problems   []config.Problem
	unreadable []config.Problem
}

// replaceObjects replaces the objects and Problems of m with the contents of r. Of objects with one
// key the first is used, and the others are Problems. A former object is kept, with a Problem, if
// it has errors now, or is missing while a document of the file cannot be read. If held is set,
// other objects that are no longer in the file are kept as missing.
func (m *manifest) replaceObjects(r reading, held bool) {
	fresh := map[config.Key]*config.Config{}
	broken := map[config.Key]bool{}
	anyUnreadable := false
	m.problems, m.missing = nil, map[config.Key]bool{}
	for _, d := range r.objects {
		m.problems = append(m.problems, d.Problems...)
		switch before := fresh[d.Key]; {
		case d.IsUnreadable():
			anyUnreadable = true
		case d.Foreign:
		case d.Config == nil:
			broken[d.Key] = true
		case before != nil:
			m.problems = append(m.problems, duplicateProblem(d.Config, before))
		default:
			fresh[d.Key] = d.Config
		}
	}
	for key, old := range m.objects {
		switch {
		case fresh[key] != nil:
		case broken[key]:
			fresh[key] = old
			m.problems = append(m.problems, keptProblem(old, "has errors now; it stays in use as it was before"))
		case anyUnreadable:
			fresh[key] = old // it may be in the unreadable document
			m.problems = append(
				m.problems,
				keptProblem(old, "is missing, and stays in use while a document of the file cannot be read"),
			)
		case held:
			fresh[key] = old
			m.missing[key] = true
		}
	}
	m.known, m.hash, m.objects = true, r.hash, fresh
}

// keptProblem returns a Warning about an object whose former version stays in use.
func keptProblem(c *config.Config, reason string) config.Problem {
	return config.Problem{Key: c.Key, Origin: c.Origin, Severity: config.Warning, Reason: reason}
}

// duplicateProblem returns an Error about the object c, which is not used because the same object
// counts takes precedence.
func duplicateProblem(c, counts *config.Config) config.Problem {
	return config.Problem{
		Code: code.DuplicateObject,
		Key:  c.Key, Origin: c.Origin, Severity: config.Error,
		Reason: fmt.Sprintf("is also in %s, which takes precedence; this one is not used", counts.Origin),
	}
}

// dropMissing removes the objects that replaceObjects kept as missing, and clears m.missing.
func (m *manifest) dropMissing() {
	objects := maps.Clone(m.objects)
	for key := range m.missing {
		delete(objects, key)
	}
	m.objects, m.missing = objects, nil
}

// isUnchanged reports whether info describes the file that was read, by identity, size and time. It
// returns false if no content is known or the last attempt to read failed. It also does if the file
// was modified shortly before it was read, because a later modification may have the same time.
func (m *manifest) isUnchanged(info os.FileInfo) bool {
	const coarse = 2 * time.Second // the resolution of FAT, the coarsest file system time in use
	return m.known && m.info.Known() && len(m.unreadable) == 0 && os.SameFile(m.info.FileInfo, info) &&
		m.info.Size() == info.Size() &&
		m.info.ModTime().Equal(info.ModTime()) &&
		m.read.Sub(info.ModTime()) > coarse
}
