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
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// reading is what came of reading one file.
type reading struct {
	rel  string
	info watch.Info
	hash uint64 // of the content
	// same says that the content is that of the manifest before, so that it was not decoded again.
	same    bool
	unsure  bool // written to while it was read
	gone    bool
	err     error
	objects []decode.Decoded
}

// read reads files side by side, in the order of the list.
func (o *Options) read(root string, list []string, before map[string]*manifest) []reading {
	out := make([]reading, len(list))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, rel := range list {
		group.Go(func() error {
			if err := o.Recovery.Call("source", func() error { out[i] = o.readOne(root, rel, before[rel]); return nil }, "file", rel); err != nil {
				out[i] = reading{rel: rel, err: fmt.Errorf("internal error, please report it with the control plane's log: %w", err)}
			}
			return nil
		})
	}
	_ = group.Wait() // nothing in it fails
	return out
}

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
// is not read, or whose name is not known, is excluded by the namespace that its text has.
func (o *Options) excludes(d decode.Decoded) bool {
	namespace := d.Key.Namespace
	if namespace == "" && len(d.Problems) > 0 {
		namespace = d.Problems[0].Key.Namespace
	}
	return len(o.Namespaces) > 0 && namespace != "" && !slices.Contains(o.Namespaces, namespace)
}

// manifest is what is known of one file.
type manifest struct {
	rel string
	// known says that the content is known, and hash that of what.
	known bool
	hash  uint64
	info  watch.Info
	read  time.Time
	// objects are those that the file stands for: what is good of its content, and what was once good and is kept.
	objects map[config.Key]*config.Config
	// missing are objects that are kept only until dropAt: they were there before the file was last written to.
	missing map[config.Key]bool
	dropAt  time.Time
	// gone says that the file itself is missing.
	gone bool
	// problems are of its content, unreadable of the file itself.
	problems   []config.Problem
	unreadable []config.Problem
}

// take puts the objects of a new reading in the place of the old. held says that objects that are not in it any more
// are to be kept for now.
func (m *manifest) take(r reading, held bool) {
	fresh := map[config.Key]*config.Config{}
	broken := map[config.Key]bool{}
	anyUnreadable := false
	m.problems, m.missing = nil, map[config.Key]bool{}
	for _, d := range r.objects {
		m.problems = append(m.problems, d.Problems...)
		switch before := fresh[d.Key]; {
		case d.Unreadable():
			anyUnreadable = true
		case d.Foreign:
		case d.Config == nil:
			broken[d.Key] = true
		case before != nil:
			m.problems = append(m.problems, duplicate(d.Config, before))
		default:
			fresh[d.Key] = d.Config
		}
	}
	for key, old := range m.objects {
		switch {
		case fresh[key] != nil:
		case broken[key]:
			fresh[key] = old
			m.problems = append(m.problems, kept(old, "has errors now; it stays in use as it was before"))
		case anyUnreadable:
			fresh[key] = old // nobody knows whether it is in what cannot be read
			m.problems = append(m.problems, kept(old, "is not found any more, and stays in use while a document of the file cannot be read"))
		case held:
			fresh[key] = old
			m.missing[key] = true
		}
	}
	m.known, m.hash, m.objects = true, r.hash, fresh
}

// kept says of an object that it is not used as its file has it now.
func kept(c *config.Config, reason string) config.Problem {
	return config.Problem{Key: c.Key, Origin: c.Origin, Severity: config.Warning, Reason: reason}
}

// duplicate is the Problem of an object that is also somewhere else, where it counts.
func duplicate(c, counts *config.Config) config.Problem {
	return config.Problem{
		Key: c.Key, Origin: c.Origin, Severity: config.Error,
		Reason: fmt.Sprintf("is also in %s, which counts; this one is not used", counts.Origin),
	}
}

// drop forgets the missing objects.
func (m *manifest) drop() {
	objects := maps.Clone(m.objects)
	for key := range m.missing {
		delete(objects, key)
	}
	m.objects, m.missing = objects, nil
}

// unchanged says that a look at the file found it as it was when it was read. A file that was written to in the last
// moments before it was read may have been written to again without its time showing it.
func (m *manifest) unchanged(info os.FileInfo) bool {
	const coarse = 2 * time.Second // the coarsest clock of a file system still in use, FAT's
	return m.known && m.info.Known() && len(m.unreadable) == 0 && os.SameFile(m.info.FileInfo, info) && m.info.Size() == info.Size() &&
		m.info.ModTime().Equal(info.ModTime()) && m.read.Sub(info.ModTime()) > coarse
}
