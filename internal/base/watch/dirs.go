package watch

import (
	"errors"
	"fmt"
	"os"

	"github.com/fsnotify/fsnotify"
)

// eventQueue is how many events may wait for the reader before the kernel's own queue fills. An overflow there is
// reported as an error and costs a look at everything.
const eventQueue = 1024

// Dirs watches a set of directories, not what is below them. It is used by one goroutine.
//
// A nil *Dirs is usable and never has an event.
type Dirs struct {
	notifier *fsnotify.Watcher
	watched  map[string]Info
}

// OpenDirs begins to watch, no directory at first. It fails where the system has no more watches to give; whoever
// looks at everything from time to time can then go on with a nil *Dirs.
func OpenDirs() (*Dirs, error) {
	notifier, err := fsnotify.NewBufferedWatcher(eventQueue)
	if err != nil {
		return nil, fmt.Errorf("watch directories: %w", err)
	}
	return &Dirs{notifier: notifier, watched: map[string]Info{}}, nil
}

// Close ends the watching.
func (d *Dirs) Close() {
	if d != nil {
		_ = d.notifier.Close() // nothing was written
	}
}

// Events gives the events of all watched directories. Every one must be shown to Saw.
func (d *Dirs) Events() <-chan fsnotify.Event {
	if d == nil {
		return nil
	}
	return d.notifier.Events
}

// Errors gives what went wrong since the last Set: events were lost, so everything may have changed.
func (d *Dirs) Errors() <-chan error {
	if d == nil {
		return nil
	}
	return d.notifier.Errors
}

// Saw keeps account of directories that are gone: a watch does not come back with a new directory of the same name.
func (d *Dirs) Saw(event fsnotify.Event) {
	if d == nil || !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
		return
	}
	d.drop(event.Name)
}

// Has says whether a directory is watched.
func (d *Dirs) Has(path string) bool {
	if d == nil {
		return false
	}
	_, watched := d.watched[path]
	return watched
}

// Set makes these the watched directories. Whoever reads a directory must do so after it was set, or a change in
// between goes unseen. The error joins those of all directories that could not be watched; a missing one is none.
func (d *Dirs) Set(paths []string) error {
	d.Keep(paths)
	var errs []error
	for _, path := range paths {
		errs = append(errs, d.Add(path))
	}
	return errors.Join(errs...)
}

// Keep ends the watching of all other directories.
func (d *Dirs) Keep(paths []string) {
	if d == nil {
		return
	}
	wanted := make(map[string]bool, len(paths))
	for _, path := range paths {
		wanted[path] = true
	}
	for path := range d.watched {
		if !wanted[path] {
			d.drop(path)
		}
	}
}

// Add watches one more directory, or again if another one has taken its place.
func (d *Dirs) Add(path string) error {
	if d == nil {
		return nil
	}
	info, err := Stat(path)
	if err != nil || !info.IsDir() {
		d.drop(path)
		return nil //nolint:nilerr // a directory that is gone is not watched, which is no error
	}
	if before, watched := d.watched[path]; watched && before.SameFile(info) {
		return nil
	}
	d.drop(path)
	if err := d.notifier.Add(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("watch directory %q: %w", path, err)
	}
	d.watched[path] = info
	return nil
}

func (d *Dirs) drop(path string) {
	if _, watched := d.watched[path]; watched {
		delete(d.watched, path)
		_ = d.notifier.Remove(path) // fails if the kernel dropped it with the directory
	}
}
