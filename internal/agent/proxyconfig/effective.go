package proxyconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// Layer is one place that sets fields of ProxyConfig.
type Layer struct {
	// Name tells a user where the layer comes from: "PROXY_CONFIG", "annotation proxy.istio.io/config".
	Name string
	// YAML is a ProxyConfig, as YAML or JSON; empty sets nothing.
	YAML string
}

// MeshDefault gives the layer of a MeshConfig's defaultConfig. Nothing else of the MeshConfig is looked at.
func MeshDefault(name, meshYAML string) (Layer, error) {
	var mesh struct {
		DefaultConfig      json.RawMessage `json:"defaultConfig"`
		DefaultConfigSnake json.RawMessage `json:"default_config"`
	}
	if err := yaml.Unmarshal([]byte(meshYAML), &mesh); err != nil {
		return Layer{}, fmt.Errorf("read %s: %w", name, err)
	}
	if mesh.DefaultConfig == nil {
		mesh.DefaultConfig = mesh.DefaultConfigSnake
	}
	return Layer{Name: name + " (defaultConfig)", YAML: string(mesh.DefaultConfig)}, nil
}

// Effective lays the layers over Default, the last one on top. Deprecated fields move to those that took their place.
func Effective(layers ...Layer) (*meshconfig.ProxyConfig, error) {
	config := Default()
	for _, layer := range layers {
		if err := layer.over(config); err != nil {
			return nil, fmt.Errorf("proxy configuration from %s: %w", layer.Name, err)
		}
	}
	modernise(config)
	return config, nil
}

// over sets the fields that the layer has, also those that it sets to a zero value. Fields are decoded one at a time,
// because protojson does not always say which field a bad value belongs to.
func (l Layer) over(config *meshconfig.ProxyConfig) error {
	var values map[string]json.RawMessage
	if err := yaml.UnmarshalStrict([]byte(l.YAML), &values); err != nil {
		return fmt.Errorf("want a mapping of ProxyConfig fields: %w", err)
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		if err := setField(config, name, values[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// RetiredFields returns a warning for each field of the layer that Istio has retired. Such fields
// are left out, because a proxy must start with the annotations of an older version. It returns
// nothing for a layer that cannot be read.
func (l Layer) RetiredFields() []string {
	var values map[string]json.RawMessage
	if err := yaml.Unmarshal([]byte(l.YAML), &values); err != nil {
		return nil
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if f, ok := retired.FieldOf("ProxyConfig", name); ok {
			list = append(list, fmt.Sprintf("proxy configuration from %s: field %q is retired and has no effect: %s", l.Name, name, f.Successor))
		}
	}
	return list
}

// setField sets the one field of that name, in the API's JSON or protobuf spelling.
func setField(config *meshconfig.ProxyConfig, name string, value json.RawMessage) error {
	fields := config.ProtoReflect().Descriptor().Fields()
	field := fields.ByJSONName(name)
	if field == nil {
		field = fields.ByName(protoreflect.Name(name))
	}
	if field == nil {
		if _, ok := retired.FieldOf("ProxyConfig", name); ok {
			return nil // reported by RetiredFields
		}
		return fmt.Errorf("field %q: ProxyConfig has no such field", name)
	}
	one, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	parsed := &meshconfig.ProxyConfig{}
	if err := protojson.Unmarshal(one, parsed); err != nil {
		return fmt.Errorf("field %q: value %s: %s", name, value, reason(err))
	}
	from, to := parsed.ProtoReflect(), config.ProtoReflect()
	switch {
	case string(value) == "null":
	case field.JSONName() == "proxyMetadata":
		proto.Merge(config, parsed)
	case from.Has(field):
		to.Set(field, from.Get(field))
	default:
		to.Clear(field)
	}
	return nil
}

// reason is a protojson error without its "proto: (line 1:23): ", which counts in JSON that the user has not seen.
func reason(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	if _, rest, ok := strings.Cut(text, "): "); ok {
		return rest
	}
	return strings.TrimPrefix(text, "proto: ")
}

// YAML writes the configuration as a user would, for the log.
func YAML(config *meshconfig.ProxyConfig) (string, error) {
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
