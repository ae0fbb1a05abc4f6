package file

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options configure a Source. Only Dir is required.
type Options struct {
	// Dir is the directory with *.yaml, *.yml and *.json files. Names that begin with a dot are
	// ignored.
	Dir string
	// Namespaces limits the objects to these namespaces (default all; --appNamespace). Objects
	// without a namespace (Namespaces, Nodes) are always read.
	Namespaces []string
	// Settle is how long the tree must be unchanged after an event before it is read (default 25
	// ms). If changes continue, it is read after three times this duration.
	Settle time.Duration
	// Hold is how long an object is kept that is missing from a file modified in place (default 500
	// ms), ten times as long if the file is empty. A file that is replaced by rename, as kubelet
	// and most editors do, is trusted at once.
	Hold time.Duration
	// Poll is the interval of scans without events (default 10 s).
	Poll time.Duration
	// PollOnly disables file system events, for file systems without them (such as NFS).
	PollOnly bool
	Clock    clock.Clock  // default: the system clock
	Logger   *slog.Logger // if nil, nothing is logged
	// Recovery confines a panic while a file is decoded to that file, whose objects stay unchanged.
	// If nil, the panic propagates.
	Recovery *recovery.Recorder
}

// Source is a config source that reads files.
type Source struct{ o Options }

var _ source.Source = (*Source)(nil)

// New returns a source for the directory. It reads nothing yet. Settle defaults to 25 ms, Hold to
// 500 ms, Poll to 10 s, Clock to the system's. If Logger is nil, nothing is logged.
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
		o.Clock = clock.System{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Source{o: o}
}

// Name returns "file:" and the directory.
func (s *Source) Name() string { return "file:" + s.o.Dir }

// Check returns an error if the directory cannot be read now. The control plane calls it before it
// opens ports, so that a mistyped directory is reported at the start.
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

// Run sends the content of the directory as one batch, then Synced, then a batch per change, until
// the context ends; then it returns nil. If the directory is missing at the start, Run sends a
// Problem and waits for it to appear. If it cannot be watched, Run logs that and polls only. It
// returns an error only if Dir has no absolute path.
//
// The scope of a file's Problems is its path. Config.Origin and the Problems of objects contain
// "path below Dir#document:line". An object is sent again if only its Origin changed; its hash is
// then unchanged.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	root, err := filepath.Abs(s.o.Dir)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name(), err)
	}
	var dirs *watch.Dirs
	if !s.o.PollOnly {
		if dirs, err = watch.OpenDirs(); err != nil {
			s.o.Logger.Warn("configuration is only looked at from time to time", "directory", root,
				"every", s.o.Poll, "error", err)
		}
	}
	defer dirs.Close()
	l := newLoop(s, root, dirs)
	l.waitAndSend(ctx, out)
	return nil
}
