// Package settings is the source of mesh-wide settings: the mesh configuration and the mesh
// networks.
//
// The inputs are two files, or the ConfigMap "istio" of the control plane's namespace for a file
// that does not exist at the start, and a shared ConfigMap with lower precedence. All of them are
// watched. The outputs are Settings events. If a text cannot be parsed or is removed, that is a
// Problem and the last valid text stays in use. Without any text the defaults apply. An invalid
// text with no valid one before it delays Synced, because the defaults would be another mesh.
//
// Start reading with [Source]; origin.go defines where texts come from and their precedence.
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

// Source watches the files and ConfigMaps with settings.
type Source struct {
	// Mesh and Networks are the paths of files; "" is none.
	Mesh, Networks string
	// ConfigMaps are the ConfigMaps of an API server. The zero value reads none.
	ConfigMaps ConfigMaps
}

// ConfigMaps configures the ConfigMaps with settings. Their keys are "mesh" and "meshNetworks".
type ConfigMaps struct {
	// Objects is the source of the ConfigMaps. If nil, there is no API server.
	Objects source.Source
	// Namespace is the namespace of the ConfigMaps. Name is the control plane's own ("istio",
	// "istio-REVISION"), Shared the one with lower precedence (SHARED_MESH_CONFIG); "" is none.
	Namespace, Name, Shared string
}

// NewConfigMaps returns the ConfigMaps of a revision's control plane, without Objects. Name is
// "istio-REVISION", or "istio" without a revision or for "default". shared is the name of an
// additional ConfigMap, "" for none.
func NewConfigMaps(namespace, revision, shared string) ConfigMaps {
	name := "istio"
	if revision != "" && revision != "default" {
		name += "-" + revision
	}
	return ConfigMaps{Namespace: namespace, Name: name, Shared: shared}
}

// Names returns the name of the control plane's own ConfigMap and then of the shared one, if that
// is set and another.
func (c ConfigMaps) Names() []string {
	if c.Shared == "" || c.Shared == c.Name {
		return []string{c.Name}
	}
	return []string{c.Name, c.Shared}
}

var _ source.Source = (*Source)(nil)

// Name returns "settings".
func (s *Source) Name() string { return "settings" }

// Check returns an error if a file exists and cannot be read or parsed now; ConfigMaps are not
// checked. The control plane calls it before it starts anything. The error begins with the path.
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
			err = o.what.checkText(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
	}
	return nil
}

// Load returns the current mesh configuration, for settings that are used only at the start
// (configSources). read returns the text of a key of a ConfigMap, or nil if it does not exist.
// Without any text it returns the defaults; it returns an error for an unreadable or invalid text.
func (s *Source) Load(read func(name, key string) ([]byte, error)) (*meshconfig.MeshConfig, error) {
	var texts [][]byte
	for _, o := range s.origins() {
		if o.what != meshText {
			continue
		}
		text, err := o.readText(read)
		if err == nil {
			err = o.what.checkText(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.displayName(s.ConfigMaps.Namespace), err)
		}
		if text != nil {
			texts = append(texts, text)
		}
	}
	return mesh.ParseMeshConfig(texts...)
}

// FromFiles reports whether the mesh configuration is read from no ConfigMap. That is so for a file
// alone, and if neither a file nor an API server is configured.
func (s *Source) FromFiles() bool {
	for _, o := range s.origins() {
		if o.what == meshText && o.configMap != "" {
			return false
		}
	}
	return true
}

// Run sends the current settings, Synced, and then every change, until the context ends, and then
// returns nil. Synced waits for the list of ConfigMaps and until no origin has only an invalid
// text. It returns only the error of ConfigMaps.Objects, which ends it.
func (s *Source) Run(ctx context.Context, out chan<- mesh.Batch) error {
	origins := s.origins()
	r := &run{Source: s, origins: origins, texts: make([][]byte, len(origins)), out: out, reads: make(chan reading)}
	for i, o := range origins {
		if o.configMap == "" {
			if text, err := os.ReadFile(o.path); err == nil { // the watch below reports errors
				r.applyText(reading{i, text, true})
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, o := range origins {
		if o.configMap != "" {
			continue
		}
		group.Go(func() error {
			watch.File(ctx, o.path, watch.Options{}, func(text []byte) { r.sendReading(ctx, reading{i, text, true}) })
			return nil
		})
	}
	objects := make(chan mesh.Batch)
	if s.ConfigMaps.Objects != nil {
		group.Go(func() error { return s.ConfigMaps.Objects.Run(ctx, objects) })
	} else {
		r.listed = true
	}
	group.Go(func() error { r.applyAndSend(ctx, objects); return nil })
	return group.Wait()
}
