package watch

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"
)

// Options say how a file is watched. The zero value has the defaults.
type Options struct {
	// Settle is how long a file must be quiet before it is read; 25 ms if zero.
	Settle time.Duration
	// Poll is how often the file is looked at although no event came; 10 s if zero.
	Poll time.Duration
	// Hold is how long a file that was truncated to nothing may stay so before it counts as empty: whoever writes
	// it with "command > file" leaves it empty until the command has something to say. 5 s if zero.
	Hold   time.Duration
	Clock  Clock        // the system's if nil
	Logger *slog.Logger // none if nil
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Settle, 25*time.Millisecond)
	def(&o.Poll, 10*time.Second)
	def(&o.Hold, 5*time.Second)
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// File calls f with the content of a file: at once if it can be read, and then each time the content is another, until
// the context ends. A file that is missing or cannot be read leaves things as they are. All calls of f come from File,
// one after the other; the bytes are the callee's to keep.
func File(ctx context.Context, path string, o Options, f func(content []byte)) {
	o = o.withDefaults()
	dirs, err := OpenDirs()
	if err != nil {
		o.Logger.Warn("a file is only looked at from time to time", "file", path, "every", o.Poll, "error", err)
	}
	defer dirs.Close()
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	w := &fileWatch{Options: o, path: path, dirs: dirs, call: f, burst: Burst{Settle: o.Settle, Bound: 10 * o.Settle}}
	w.look()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-dirs.Events():
			dirs.Saw(event)
			if slices.Contains(w.names, event.Name) {
				w.burst.Note(o.Clock.Now())
			}
		case err := <-dirs.Errors():
			o.Logger.Warn("events of a watched file may have been lost", "file", path, "error", err)
			w.burst.Note(o.Clock.Now())
		case <-o.Clock.After(w.next().Sub(o.Clock.Now())):
			w.burst.End()
			w.look()
		}
	}
}

// fileWatch is one File at work.
type fileWatch struct {
	Options
	path   string
	dirs   *Dirs
	call   func([]byte)
	burst  Burst
	names  []string // decide where path leads
	looked time.Time
	// emptySince is when the file was first seen empty, zero if it is not.
	emptySince time.Time
	content    []byte // last given out
	given      bool
	// What was last logged: nothing is said twice in a row.
	unwatched, unread string
}

// next is when the file is to be looked at if nothing happens.
func (w *fileWatch) next() time.Time {
	next := w.looked.Add(w.Poll)
	if due, burst := w.burst.Due(); burst && due.Before(next) {
		next = due
	}
	if !w.emptySince.IsZero() && w.emptySince.Add(w.Hold).Before(next) {
		next = w.emptySince.Add(w.Hold)
	}
	return next
}

// look reads the file and gives its content out if it is another.
func (w *fileWatch) look() {
	w.looked = w.Clock.Now()
	w.names = Names(w.path)
	parents := make([]string, len(w.names))
	for i, name := range w.names {
		parents[i] = filepath.Dir(name)
	}
	w.warn(&w.unwatched, "changes of a file are only seen from time to time", w.dirs.Set(parents))
	content, look, err := Read(w.path)
	w.warn(&w.unread, "a watched file cannot be read, its last content stays", err)
	switch {
	case err != nil || w.given && bytes.Equal(content, w.content):
		w.emptySince = time.Time{}
	case !look.Stable:
		w.burst.Note(w.looked)
	case w.given && len(content) == 0 && w.emptySince.IsZero():
		w.emptySince = w.looked
	case w.given && len(content) == 0 && w.looked.Before(w.emptySince.Add(w.Hold)):
	default:
		w.emptySince = time.Time{}
		w.content, w.given = content, true
		w.call(bytes.Clone(content))
	}
}

// warn logs an error unless it is the one that was last logged of its sort.
func (w *fileWatch) warn(last *string, message string, err error) {
	if err == nil {
		*last = ""
		return
	}
	if err.Error() != *last {
		*last = err.Error()
		w.Logger.Warn(message, "file", w.path, "error", err)
	}
}
