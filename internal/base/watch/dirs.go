package watch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// eventQueue is the size of the event buffer before the kernel's queue fills. An overflow of that
// is reported as an error, after which everything must be checked.
const eventQueue = 1024

// maxChanges is how often AddNames determines the names of a path that keeps changing again. Such a
// path has events, which lead to another call.
const maxChanges = 100

// Dirs watches a set of directories without their subdirectories. It is not safe for concurrent
// use.
//
// All methods of a nil *Dirs work; it never has events.
type Dirs struct {
	notifier *fsnotify.Watcher
	watched  map[string]Info
}

// OpenDirs returns a Dirs without directories. It fails if the system's limit of watches is
// reached. A caller that also polls can then continue with a nil *Dirs.
func OpenDirs() (*Dirs, error) {
	notifier, err := fsnotify.NewBufferedWatcher(eventQueue)
	if err != nil {
		return nil, fmt.Errorf("watch directories: %w", err)
	}
	return &Dirs{notifier: notifier, watched: map[string]Info{}}, nil
}

// Close stops watching. It does nothing on a nil Dirs.
func (d *Dirs) Close() {
	if d != nil {
		_ = d.notifier.Close() // only closes descriptors
	}
}

// Events returns the channel of events in all watched directories, or nil on a nil Dirs. Each event
// must be passed to Saw.
func (d *Dirs) Events() <-chan fsnotify.Event {
	if d == nil {
		return nil
	}
	return d.notifier.Events
}

// Errors returns the channel of errors, or nil on a nil Dirs. After an error events may have been
// lost, so everything may have changed.
func (d *Dirs) Errors() <-chan error {
	if d == nil {
		return nil
	}
	return d.notifier.Errors
}

// Saw processes an event: it stops watching directories that were deleted or renamed, because a
// watch does not follow a new directory of the same name. Other events have no effect. It reports
// whether it stopped watching a directory. A new one may be there already, so the caller must then
// set its watches and read again.
func (d *Dirs) Saw(event fsnotify.Event) (stopped bool) {
	if d == nil || !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename) {
		return false
	}
	return d.unwatch(event.Name)
}

// Has reports whether a directory is watched. It returns false on a nil Dirs.
func (d *Dirs) Has(path string) bool {
	if d == nil {
		return false
	}
	_, watched := d.watched[path]
	return watched
}

// Set replaces the watched directories. Read a directory only after Set, or a change in between is
// missed. The error joins the errors of all directories that could not be watched; a missing
// directory is not an error.
func (d *Dirs) Set(paths []string) error {
	d.Keep(paths)
	var errs []error
	for _, path := range paths {
		errs = append(errs, d.Add(path))
	}
	return errors.Join(errs...)
}

// Keep stops watching all directories that are not in paths. It adds none. It does nothing on a nil
// Dirs.
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
			d.unwatch(path)
		}
	}
}

// Add starts watching a directory, also if a new directory has replaced one of the same name. If
// the path is missing or no directory, it stops watching it and returns nil. It does nothing on a
// nil Dirs.
func (d *Dirs) Add(path string) error {
	if d == nil {
		return nil
	}
	info, err := Stat(path)
	if err != nil || !info.IsDir() {
		d.unwatch(path)
		return nil //nolint:nilerr // a missing directory is not watched, which is no error
	}
	if before, watched := d.watched[path]; watched && before.SameFile(info) {
		return nil
	}
	d.unwatch(path)
	if err := d.notifier.Add(path); errors.Is(err, os.ErrNotExist) {
		return nil // deleted since
	} else if err != nil {
		return fmt.Errorf("watch directory %q: %w", path, err)
	}
	d.watched[path] = info
	return nil
}

// AddNames starts watching the directories of Names(path) and returns these names. If a directory
// or a link appears or changes before its directory is watched, there is no event of it, so the
// names are determined again until they have not changed, at most maxChanges times. The error joins
// the errors of all directories that could not be watched.
func (d *Dirs) AddNames(path string) ([]string, error) {
	names := Names(path)
	for changes := 0; ; changes++ {
		var errs []error
		for _, name := range names {
			errs = append(errs, d.Add(filepath.Dir(name)))
		}
		before := names
		if names = Names(path); slices.Equal(names, before) || changes == maxChanges {
			return names, errors.Join(errs...)
		}
	}
}

// unwatch stops watching a directory. It returns false if the directory is not watched.
func (d *Dirs) unwatch(path string) bool {
	_, watched := d.watched[path]
	if watched {
		delete(d.watched, path)
		_ = d.notifier.Remove(path) // fails if the kernel has removed it with the directory
	}
	return watched
}
