package proxyconfig

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Layer is one source of ProxyConfig fields.
type Layer struct {
	// Name identifies the source in errors: "PROXY_CONFIG", "annotation proxy.istio.io/config".
	Name string
	// YAML is a ProxyConfig in YAML or JSON. If empty, it sets nothing.
	YAML string
}

// MeshConfigLayer returns the layer of a MeshConfig's defaultConfig (or default_config), empty if
// there is none. All other fields of the MeshConfig are ignored. Invalid YAML is an error.
func MeshConfigLayer(name, meshYAML string) (Layer, error) {
	var text struct {
		DefaultConfig      json.RawMessage `json:"defaultConfig"`
		DefaultConfigSnake json.RawMessage `json:"default_config"`
	}
	if err := yaml.Unmarshal([]byte(meshYAML), &text); err != nil {
		return Layer{}, fmt.Errorf("parse %s: %w", name, err)
	}
	if text.DefaultConfig == nil {
		text.DefaultConfig = text.DefaultConfigSnake
	}
	return Layer{Name: name + " (defaultConfig)", YAML: string(text.DefaultConfig)}, nil
}

// MergeLayers returns the layers merged over DefaultConfig, later ones last. A field that a layer
// sets replaces the whole field, except proxyMetadata and proxyHeaders, which are merged.
// Deprecated fields are replaced by their successors, unknown and retired ones are skipped
// (IgnoredFields), and the result is not validated. It returns the error of the first invalid
// layer, with its name.
func MergeLayers(layers ...Layer) (*meshconfig.ProxyConfig, error) {
	config := DefaultConfig()
	for _, layer := range layers {
		var err error
		if config, _, err = mesh.OverlayProxyConfig(config, []byte(layer.YAML)); err != nil {
			return nil, fmt.Errorf("proxy configuration from %s: %w", layer.Name, err)
		}
	}
	migrateDeprecatedFields(config)
	return config, nil
}

// IgnoredFields returns a warning for each part of the layer that MergeLayers skips: unknown
// fields, fields that Istio has retired, and repeated keys. A proxy must start with a configuration
// that was written for another version. It returns nil for a layer that cannot be parsed.
func (l Layer) IgnoredFields() []string {
	var list []string
	for _, p := range mesh.ProxyConfigWarnings([]byte(l.YAML)) {
		what := p.Reason
		if p.Field != "" {
			what = fmt.Sprintf("field %q %s", p.Field, p.Reason)
		}
		list = append(list, fmt.Sprintf("proxy configuration from %s: %s", l.Name, what))
	}
	return list
}

// EncodeYAML returns the configuration as YAML, for the log.
func EncodeYAML(config *meshconfig.ProxyConfig) (string, error) {
	js, err := protojson.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encode proxy configuration: %w", err)
	}
	out, err := yaml.JSONToYAML(js)
	if err != nil {
		return "", fmt.Errorf("encode proxy configuration: %w", err)
	}
	return string(out), nil
}
