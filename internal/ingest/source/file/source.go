package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options are those of a file source. Only Dir is required.
type Options struct {
	// Dir is the directory whose tree of *.yaml, *.yml and *.json files is read. Names that begin with a dot are not.
	Dir string
	// Namespaces are the only ones whose objects are read (--appNamespace). If empty, all are.
	// Objects without a namespace (Namespaces, Nodes) are always read.
	Namespaces []string
	// Settle is how long the tree must be quiet after a change before it is read; 25 ms if zero. A tree that does not
	// become quiet is read after three times as long: somebody may be editing all the time.
	Settle time.Duration
	// Hold is how long an object may be missing from a file that is being rewritten in place before it counts as
	// removed, ten times as long if the file is empty altogether; 500 ms if zero. A file replaced by rename, as kubelet,
	// editors and careful programs do, is believed at once.
	Hold time.Duration
	// Poll is how often the whole tree is looked at although no event came; 10 s if zero.
	Poll time.Duration
	// PollOnly does without events, for file systems that have none (NFS and its like).
	PollOnly bool
	Clock    watch.Clock  // the system's if nil
	Logger   *slog.Logger // none if nil
	// Recovery confines a panic while a file is decoded to that file, whose objects stay as they were. If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Source is a config source of files.
type Source struct{ o Options }

var _ source.Source = (*Source)(nil)

// New makes a source of the directory. It reads nothing yet.
func New(o Options) *Source {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Settle, 25*time.Millisecond)
	def(&o.Hold, 500*time.Millisecond)
	def(&o.Poll, 10*time.Second)
	if o.Clock == nil {
		o.Clock = watch.SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{o: o}
}

// Name is "file:" and the directory.
func (s *Source) Name() string { return "file:" + s.o.Dir }

// Check says why the directory cannot be read now. A server asks before it opens ports: a mistyped directory is better
// found then than by proxies that are never configured.
func (s *Source) Check() error {
	info, err := os.Stat(s.o.Dir)
	if err != nil {
		return fmt.Errorf("read configuration directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("read configuration directory %q: not a directory", s.o.Dir)
	}
	if _, err := os.ReadDir(s.o.Dir); err != nil {
		return fmt.Errorf("read configuration directory: %w", err)
	}
	return nil
}

// Run sends what the directory holds as one batch, then Synced, then a batch for each change, until the context ends;
// then it returns nil. While the directory is missing at the start it sends a Problem and waits for it to appear.
//
// The Problems of a file have its path as their scope. Objects in them, and Config.Origin, say
// "path below Dir#document:line". An object is sent again if only its Origin changed; its hash is then the same.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	root, err := filepath.Abs(s.o.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	var dirs *watch.Dirs
	if !s.o.PollOnly {
		if dirs, err = watch.OpenDirs(); err != nil {
			s.o.Logger.Warn("configuration is only looked at from time to time", "directory", root, "every", s.o.Poll, "error", err)
		}
	}
	defer dirs.Close()
	l := newLoop(s, root, dirs)
	l.run(ctx, out)
	return nil
}
