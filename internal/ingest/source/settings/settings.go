// Package settings is the source of mesh-wide settings: the mesh configuration and the mesh networks.
//
// In: two files, or the ConfigMap "istio" of the control plane's namespace where a file is not there at the start, and a shared
// ConfigMap that counts for what those do not say; all of them are watched. Out: Settings events.
// Law: a text that cannot be parsed is a Problem, and what was said there before stays; so does what was said by a file or
// ConfigMap that is gone. What never was leaves the defaults. A ConfigMap that was never good is waited for: the defaults are
// another mesh.
//
// Start with [Source]; origin.go says where texts come from, and what of them counts.
package settings

import (
	"context"
	"fmt"
	"os"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"golang.org/x/sync/errgroup"

	"github.com/meshpilot/meshpilot/internal/base/watch"
	"github.com/meshpilot/meshpilot/internal/ingest/source"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Source watches the files and ConfigMaps.
type Source struct {
	// Mesh and Networks are paths; empty: none.
	Mesh, Networks string
	// ConfigMaps are those of an API server; the zero value is none.
	ConfigMaps ConfigMaps
}

// ConfigMaps are the ConfigMaps with settings. Their keys are "mesh" and "meshNetworks".
type ConfigMaps struct {
	// Objects gives the ConfigMaps of these names; nil: there is no API server.
	Objects source.Source
	// Namespace is theirs. Name is that of the control plane's own ("istio", "istio-REVISION"), Shared that of the one beneath it
	// (SHARED_MESH_CONFIG), empty: none.
	Namespace, Name, Shared string
}

var _ source.Source = (*Source)(nil)

// Name is "settings".
func (s *Source) Name() string { return "settings" }

// Check says what is wrong with the files now, for a clear error before anything starts. Missing files are not wrong.
func (s *Source) Check() error {
	for _, o := range s.origins() {
		if o.configMap != "" {
			continue
		}
		text, err := os.ReadFile(o.path)
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = o.what.check(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
	}
	return nil
}

// Load gives the mesh configuration as it is now, for what is read only once, at the start (configSources): with read giving the
// text of a key of a ConfigMap, nil if there is none. It is the default one if nobody says anything.
func (s *Source) Load(read func(name, key string) ([]byte, error)) (*meshconfig.MeshConfig, error) {
	var texts [][]byte
	for _, o := range s.origins() {
		if o.what != meshOf {
			continue
		}
		text, err := o.load(read)
		if err == nil {
			err = o.what.check(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name(s.ConfigMaps.Namespace), err)
		}
		if text != nil {
			texts = append(texts, text)
		}
	}
	return mesh.ParseMeshConfig(texts...)
}

// FromFiles says whether the mesh configuration is read from no ConfigMap.
func (s *Source) FromFiles() bool {
	for _, o := range s.origins() {
		if o.what == meshOf && o.configMap != "" {
			return false
		}
	}
	return true
}

// Run sends the settings that there are, Synced, and then every change.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	origins := s.origins()
	r := &run{Source: s, origins: origins, texts: make([][]byte, len(origins)), out: out, reads: make(chan reading)}
	for i, o := range origins {
		if o.configMap == "" {
			if text, err := os.ReadFile(o.path); err == nil { // the watch below says what is wrong with it
				r.take(reading{i, text, true})
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, o := range origins {
		if o.configMap != "" {
			continue
		}
		group.Go(func() error {
			watch.File(ctx, o.path, watch.Options{}, func(text []byte) { r.give(ctx, reading{i, text, true}) })
			return nil
		})
	}
	objects := make(chan mesh.Batch)
	if s.ConfigMaps.Objects != nil {
		group.Go(func() error { return s.ConfigMaps.Objects.Run(ctx, objects) })
	} else {
		r.listed = true
	}
	group.Go(func() error { r.loop(ctx, objects); return nil })
	return group.Wait()
}
