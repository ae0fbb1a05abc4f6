// Package mock reads the services of the registry Mock from a directory of files, for tests and for
// trying out the mesh without a platform.
//
// Each *.yaml, *.yml or *.json file contains one adapter.Service or a list of them. A file that
// cannot be parsed keeps its last valid services, with a Problem. Start with [Platform.Watch].
package mock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

// Settings are the user's settings.
type Settings struct {
	// Dir is the directory (--mockRegistryDir).
	Dir string
}

// Validate returns an error unless Dir is a directory. It does not read the files in it.
func (s Settings) Validate() error {
	if s.Dir == "" {
		return errors.New("--registries Mock: needs --mockRegistryDir")
	}
	info, err := os.Stat(s.Dir)
	if err != nil {
		return fmt.Errorf("--mockRegistryDir: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--mockRegistryDir %q: is not a directory", s.Dir)
	}
	return nil
}

// Platform reads services from a directory.
type Platform struct {
	settings Settings
	log      *slog.Logger
	clock    clock.Clock
}

var _ adapter.Platform = (*Platform)(nil)

// New returns a Platform that reads the directory of the settings.
func New(s Settings, log *slog.Logger) *Platform {
	return &Platform{settings: s, log: log, clock: clock.System{}}
}

// poll is how often the directory is read without an event, and settle how long a burst of events
// may last before it is read.
const (
	poll   = 10 * time.Second
	settle = 25 * time.Millisecond
)

// Watch reports the services of the directory, then Synced, and all services again after each
// change. Synced has a generation, so that other services are removed, only if all files were
// valid. It returns nil when ctx ends, and an error if the directory cannot be read. It waits until
// changes have settled, and also polls. Invalid files are reported to sink.
func (p *Platform) Watch(ctx context.Context, sink adapter.Sink) error {
	dirs, err := watch.OpenDirs()
	if err != nil {
		p.log.Warn("cannot watch the directory for events, polling it", "directory", p.settings.Dir, "error", err)
	}
	defer dirs.Close()
	if err := dirs.Set([]string{p.settings.Dir}); err != nil {
		return err
	}
	r := reader{dir: p.settings.Dir, sink: sink, files: map[string][]adapter.ServiceKey{}}
	if err := r.readAll(); err != nil {
		return err
	}
	if r.complete {
		sink.SyncedGeneration("directory") // files that can be read have lost nothing
	} else {
		sink.Synced() // services of an invalid file are not known, and must not be removed
	}
	var pause <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-dirs.Events():
			dirs.Saw(e)
			if pause == nil {
				pause = p.clock.After(settle)
			}
			continue
		case err := <-dirs.Errors():
			p.log.Debug("events of the directory may be lost; reading it again", "error", err)
		case <-pause:
		case <-p.clock.After(poll):
		}
		pause = nil
		if err := r.readAll(); err != nil {
			return err
		}
	}
}

// reader is the state of one call of Watch.
type reader struct {
	dir   string
	sink  adapter.Sink
	files map[string][]adapter.ServiceKey // what each file contained when it was valid
	// complete is set if readAll could read every file.
	complete bool
}

// readAll reports the services of all manifests in the directory, and deletes services that no file
// contains any longer. Hidden files and subdirectories are skipped. An invalid file is reported and
// keeps its services; r.complete is true if there is none. It returns an error, and changes
// nothing, only if the directory cannot be read.
func (r *reader) readAll() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	before := r.files
	r.files, r.complete = map[string][]adapter.ServiceKey{}, true
	exists := map[adapter.ServiceKey]bool{}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !decode.IsManifest(name) || strings.HasPrefix(name, ".") {
			continue
		}
		services, err := readFile(filepath.Join(r.dir, name))
		if err != nil {
			r.complete = false
			r.files[name] = before[name]
			r.reportFile(name, err)
			for _, k := range before[name] {
				exists[k] = true
			}
			continue
		}
		r.sink.Report(fileKey(name), nil)
		for _, s := range services {
			r.files[name] = append(r.files[name], s.ServiceKey)
			exists[s.ServiceKey] = true
			r.sink.Set(s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, found := r.files[name]; !found {
			r.sink.Report(fileKey(name), nil)
		}
		for _, k := range before[name] {
			if !exists[k] {
				r.sink.Delete(k)
			}
		}
	}
	return nil
}

// reportFile reports the error of a file, for the file and for each service that it contained.
func (r *reader) reportFile(name string, err error) {
	r.sink.Report(fileKey(name), err)
	for _, k := range r.files[name] {
		r.sink.Report(k, fmt.Errorf("%s: %w", name, err))
	}
}

// fileKey returns the key for problems of a whole file.
func fileKey(name string) adapter.ServiceKey { return adapter.ServiceKey{Name: "file " + name} }

// readFile returns the services of a file. It returns an error if the file is unreadable or has a
// field that a Service does not have.
func readFile(path string) ([]adapter.Service, error) {
	content, _, err := watch.Read(path)
	if err != nil {
		return nil, err
	}
	return parse(content)
}

// parse returns the services in a YAML or JSON text, which is one service or a list; an empty text
// has none. Services without a namespace get the default one. It returns an error for invalid
// syntax and unknown fields.
func parse(content []byte) ([]adapter.Service, error) {
	var list []adapter.Service
	if err := yaml.UnmarshalStrict(content, &list); err == nil {
		return withNamespaces(list), nil
	}
	var one adapter.Service
	if err := yaml.UnmarshalStrict(content, &one); err != nil {
		return nil, err
	}
	return withNamespaces([]adapter.Service{one}), nil
}

// withNamespaces sets the default namespace in each service without one, and returns the list. It
// modifies the list.
func withNamespaces(list []adapter.Service) []adapter.Service {
	for i := range list {
		if list[i].Namespace == "" {
			list[i].Namespace = adapter.DefaultNamespace
		}
	}
	return list
}
