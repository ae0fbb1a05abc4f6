package watch

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
)

// Options configure how a file is watched.
type Options struct {
	// Settle is how long a file must be unchanged before it is read (default 25 ms).
	Settle time.Duration
	// Poll is how often the file is checked without an event (default 10 s).
	Poll time.Duration
	// Hold is how long a file that was truncated may stay empty before it is reported as empty
	// (default 5 s): with "command > file" it is empty until the command writes output.
	Hold time.Duration
	// Clock is the clock. If nil, it is the system's.
	Clock clock.Clock
	// Logger receives warnings. If nil, they are dropped.
	Logger *slog.Logger
}

// withDefaults returns o with defaults in place of zero values: 25 ms for Settle, 10 s for Poll, 5
// s for Hold, the system's clock, and a Logger that discards.
func (o Options) withDefaults() Options {
	setDefault := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	setDefault(&o.Settle, 25*time.Millisecond)
	setDefault(&o.Poll, 10*time.Second)
	setDefault(&o.Hold, 5*time.Second)
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// File calls f with the content of a file: first at once, if it can be read, then whenever the
// content changes, until ctx ends. While the file is missing or unreadable, f is not called, which
// is logged once. A file that becomes empty is reported only after Hold. All calls come from the
// calling goroutine, one after the other, and f may keep the content.
func File(ctx context.Context, path string, o Options, f func(content []byte)) {
	o = o.withDefaults()
	dirs, err := OpenDirs()
	if err != nil {
		o.Logger.Warn("cannot watch a file for events, polling it", "file", path, "interval", o.Poll, "error", err)
	}
	defer dirs.Close()
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	w := &fileWatch{
		Options: o, path: path, dirs: dirs, onChange: f,
		burst: Burst{Settle: o.Settle, Bound: 10 * o.Settle},
	}
	w.checkFile()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-dirs.Events():
			if dirs.Saw(event) || slices.Contains(w.names, event.Name) {
				w.burst.Note(o.Clock.Now())
			}
		case err := <-dirs.Errors():
			o.Logger.Warn("events of a watched file may have been lost, checking it", "file", path, "error", err)
			w.burst.Note(o.Clock.Now())
		case <-o.Clock.After(w.nextCheck().Sub(o.Clock.Now())):
			w.burst.End()
			w.checkFile()
		}
	}
}

// fileWatch is the state of one call of File.
type fileWatch struct {
	Options
	path     string
	dirs     *Dirs
	onChange func([]byte)
	burst    Burst
	names    []string // see Names
	checked  time.Time
	// emptySince is when the file was first seen empty, zero if it is not empty.
	emptySince time.Time
	content    []byte // last passed to onChange
	reported   bool
	// The messages last logged, so that none is repeated.
	unwatched, unread string
}

// nextCheck returns when to check the file if no event arrives: the earliest of the next poll, the
// end of a burst of events, and the end of Hold for an empty file.
func (w *fileWatch) nextCheck() time.Time {
	next := w.checked.Add(w.Poll)
	if due, burst := w.burst.Due(); burst && due.Before(next) {
		next = due
	}
	if !w.emptySince.IsZero() && w.emptySince.Add(w.Hold).Before(next) {
		next = w.emptySince.Add(w.Hold)
	}
	return next
}

// checkFile reads the file and calls onChange if its content has changed. It sets the watches of
// the directories first. A file that is still being written, or that was truncated less than Hold
// ago, is checked again later. Each failure is logged once.
func (w *fileWatch) checkFile() {
	w.checked = w.Clock.Now()
	var unwatched error
	w.names, unwatched = w.dirs.AddNames(w.path)
	parents := make([]string, len(w.names))
	for i, name := range w.names {
		parents[i] = filepath.Dir(name)
	}
	w.dirs.Keep(parents)
	w.logOnce(&w.unwatched, "cannot watch the directories of a file, polling it", unwatched)
	content, look, err := Read(w.path)
	effect := "waiting for it"
	if w.reported {
		effect = "keeping its last content"
	}
	w.logOnce(&w.unread, "cannot read a watched file, "+effect, err)
	switch {
	case err != nil || w.reported && bytes.Equal(content, w.content):
		w.emptySince = time.Time{}
	case !look.Stable:
		w.burst.Note(w.checked)
	case w.reported && len(content) == 0 && w.emptySince.IsZero():
		w.emptySince = w.checked
	case w.reported && len(content) == 0 && w.checked.Before(w.emptySince.Add(w.Hold)):
	default:
		w.emptySince = time.Time{}
		w.content, w.reported = content, true
		w.onChange(bytes.Clone(content))
	}
}

// logOnce logs a warning with err unless err has the text in last, where it stores the text. A nil
// error resets last.
func (w *fileWatch) logOnce(last *string, message string, err error) {
	if err == nil {
		*last = ""
		return
	}
	if err.Error() != *last {
		*last = err.Error()
		w.Logger.Warn(message, "file", w.path, "error", err)
	}
}
