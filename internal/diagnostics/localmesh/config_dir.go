package localmesh

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// configWriter writes the directory that the control plane reads. It may be used concurrently.
type configWriter struct {
	dir, staging string

	mu   sync.Mutex
	user map[string]string // the user's files that were written last
}

// newConfigWriter creates the directories dir, dir/workloads and staging, and returns a writer to
// them. Existing directories and their files are kept.
func newConfigWriter(dir, staging string) (*configWriter, error) {
	for _, d := range []string{dir, staging, filepath.Join(dir, "workloads")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	return &configWriter{dir: dir, staging: staging, user: map[string]string{}}, nil
}

// replaceUserFiles replaces the user's files by the files of a map by path. It writes files that
// are new or changed, and removes files that are not in the map. It keeps the map for the next
// comparison, also after errors, so callers must not modify it. It returns all errors, joined. It
// locks w.mu.
func (w *configWriter) replaceUserFiles(files map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for path, text := range files {
		if before, ok := w.user[path]; !ok || before != text {
			errs = append(errs, w.write(path, []byte(text)))
		}
	}
	for path := range w.user {
		if _, ok := files[path]; !ok {
			errs = append(errs, os.Remove(filepath.Join(w.dir, path)))
		}
	}
	w.user = files
	return errors.Join(errs...)
}

// writeObject writes a file with one object as JSON. path is relative to the directory. It replaces
// the file atomically.
func (w *configWriter) writeObject(path string, object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err
	}
	return w.writeText(path, string(text))
}

// writeText writes a file. path is relative to the directory.
func (w *configWriter) writeText(path, text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.write(path, []byte(text))
}

// remove removes a file. It does nothing if the file does not exist.
func (w *configWriter) remove(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := os.Remove(filepath.Join(w.dir, path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write replaces a file below w.dir atomically: readers see the former or the new content. Missing
// directories are created. w.mu must be held, because all writes use the same staging file.
func (w *configWriter) write(path string, text []byte) error {
	target := filepath.Join(w.dir, path)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	staged := filepath.Join(w.staging, "next")
	if err := os.WriteFile(staged, text, 0o644); err != nil {
		return err
	}
	return os.Rename(staged, target)
}
