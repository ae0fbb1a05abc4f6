// Package settings is the source of mesh-wide settings: the mesh configuration and the mesh networks, each a file that is
// watched.
//
// In: two files, either of which may be missing. Out: Settings events. Law: a file that cannot be read or parsed is a
// Problem, and what was read before stays; so does what a file said that is gone. A file that never was leaves the defaults.
//
// Start with [Source].
package settings

import (
	"context"
	"fmt"
	"os"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/source"
	"github.com/meshpilot/meshpilot/internal/source/file/watch"
)

// Source watches the two files.
type Source struct {
	// Mesh and Networks are paths; empty: none.
	Mesh, Networks string
}

var _ source.Source = (*Source)(nil)

// Name is "settings".
func (s *Source) Name() string { return "settings" }

// Check says what is wrong with the files now, for a clear error before anything starts. Missing files are not wrong.
func (s *Source) Check() error {
	for path, parse := range s.files() {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			_, err = parse(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// Load gives the mesh configuration as its file has it now, for what is read only once, at the start (configSources). It is
// the default one if there is no file.
func (s *Source) Load() (*meshconfig.MeshConfig, error) {
	text, err := os.ReadFile(s.Mesh)
	if s.Mesh == "" || os.IsNotExist(err) {
		return mesh.DefaultMeshConfig(), nil
	}
	var m *meshconfig.MeshConfig
	if err == nil {
		m, err = mesh.ParseMeshConfig(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Mesh, err)
	}
	return m, nil
}

func (s *Source) files() map[string]func([]byte) (mesh.Settings, error) {
	m := map[string]func([]byte) (mesh.Settings, error){}
	if s.Mesh != "" {
		m[s.Mesh] = func(text []byte) (mesh.Settings, error) {
			c, err := mesh.ParseMeshConfig(text)
			return mesh.Settings{Mesh: c}, err
		}
	}
	if s.Networks != "" {
		m[s.Networks] = func(text []byte) (mesh.Settings, error) {
			if len(text) == 0 {
				return mesh.Settings{Networks: new(meshconfig.MeshNetworks)}, nil
			}
			n, err := mesh.ParseMeshNetworks(text)
			return mesh.Settings{Networks: n}, err
		}
	}
	return m
}

// Run sends the settings of the files that are there, Synced, and then every change.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	first := mesh.Batch{}
	for path, parse := range s.files() {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the watch below says what is wrong with it
		}
		first = append(first, s.events(path, text, parse)...)
	}
	if !send(ctx, out, append(first, mesh.Event{Op: mesh.Synced, Source: s.Name()})) {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for path, parse := range s.files() {
		group.Go(func() error {
			watch.File(ctx, path, watch.Options{}, func(text []byte) {
				send(ctx, out, s.events(path, text, parse))
			})
			return nil
		})
	}
	<-ctx.Done()
	return group.Wait()
}

// events gives what a file's text says: settings, or a Problem that mends itself with the next good text.
func (s *Source) events(path string, text []byte, parse func([]byte) (mesh.Settings, error)) mesh.Batch {
	settings, err := parse(text)
	if err != nil {
		return mesh.Batch{{Source: s.Name(), Problems: &mesh.Problems{Scope: path, List: []config.Problem{
			{Origin: path, Reason: err.Error(), Severity: config.Error},
		}}}}
	}
	return mesh.Batch{{Source: s.Name(), Settings: &settings}, {Source: s.Name(), Problems: &mesh.Problems{Scope: path}}}
}

func send(ctx context.Context, out chan<- mesh.Batch, b mesh.Batch) bool {
	select {
	case out <- b:
		return true
	case <-ctx.Done():
		return false
	}
}
