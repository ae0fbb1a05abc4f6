package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// savedState is the content of a state file: the last known state of a platform.
type savedState struct {
	Platform   string         `json:"platform"`
	Generation string         `json:"generation,omitempty"`
	Services   []savedService `json:"services"`
}

// savedService is a service, and the IDs of its uncertain instances.
type savedService struct {
	Service
	Uncertain []string `json:"uncertain,omitempty"`
}

// readState reads a state file. It returns nil if the file does not exist. It returns an error if
// the file is unreadable or malformed, has a service without name or namespace, or is the state of
// another platform.
func readState(file, platform string) (*savedState, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s savedState
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	switch {
	case err != nil:
	case s.Platform != platform:
		err = fmt.Errorf("is the state of platform %q, not of %q", s.Platform, platform)
	case slices.ContainsFunc(s.Services, func(x savedService) bool { return x.Namespace == "" || x.Name == "" }):
		err = errors.New("has a service without a name or a namespace")
	}
	if err != nil {
		return nil, fmt.Errorf("the state file %s: %w", file, err)
	}
	return &s, nil
}

// restore sets the state of an earlier process, which becomes pending as a whole: all its instances
// count as kept, and Synced is emitted. It must be called before the first session.
func (s *state) restore(saved *savedState) {
	s.generation, s.started, s.pending.synced = saved.Generation, true, true
	for _, from := range saved.Services {
		x := &known{inUse: from.Service, kept: len(from.Instances)}
		for _, id := range from.Uncertain {
			if x.uncertain == nil {
				x.uncertain = map[string]bool{}
			}
			x.uncertain[id] = true
		}
		s.services[from.ServiceKey] = x
		s.pending.set[from.ServiceKey] = true
		s.count(x, 1)
	}
}

// save returns the current state, sorted by service, for the given platform name. It returns nil
// before the first Synced. Nothing is written. f.mu must not be held.
func (f *Follower) save(platform string) *savedState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.state.started {
		return nil
	}
	s := &savedState{Platform: platform, Generation: f.state.generation, Services: []savedService{}}
	for _, k := range slices.SortedFunc(maps.Keys(f.state.services), ServiceKey.Compare) {
		x := f.state.services[k]
		s.Services = append(s.Services, savedService{x.inUse, slices.Sorted(maps.Keys(x.uncertain))})
	}
	return s
}

// stateWriter writes the state of a Follower to a file.
type stateWriter struct {
	file, platform string
	follower       *Follower
	log            *slog.Logger
	failures       prometheus.Counter
}

// The pauses after a state was written, which combine changes, and after a failure.
const (
	saveInterval = time.Second
	saveRetry    = 10 * time.Second
)

// run writes the state after each change until done is closed, and then once more if it has
// changed. After a failure it retries. If ctx ends, it no longer pauses between writes.
func (w *stateWriter) run(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case <-w.follower.unsaved:
		case <-done:
			select {
			case <-w.follower.unsaved:
				w.write()
			default:
			}
			return
		}
		pause := saveInterval
		if !w.write() {
			pause = saveRetry
			wake(w.follower.unsaved)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// write writes the state and reports whether it succeeded. A failure is logged and counted. Before
// the first Synced it writes nothing and returns true.
func (w *stateWriter) write() bool {
	s := w.follower.save(w.platform)
	if s == nil {
		return true
	}
	content, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(w.file, content)
	}
	if err != nil {
		w.failures.Inc()
		w.log.Error("the state cannot be saved; a restart would begin with an older one", "file", w.file, "error", err)
	}
	return err == nil
}

// replaceFile writes content to a temporary file beside file, with mode 0600, and renames it. So
// after a crash or an error file has either its old content or the new one.
func replaceFile(file string, content []byte) error {
	next, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // its first error matters
	}
	return err
}
