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

// Layer is one source of ProxyConfig fields.
type Layer struct {
	// Name identifies the source in errors: "PROXY_CONFIG", "annotation proxy.istio.io/config".
	Name string
	// YAML is a ProxyConfig in YAML or JSON. If empty, it sets nothing.
	YAML string
}

// MeshConfigLayer returns the layer of a MeshConfig's defaultConfig, without any field if there is
// none. All other fields of the MeshConfig are ignored. Invalid YAML is an error.
func MeshConfigLayer(name, meshYAML string) (Layer, error) {
	var mesh struct {
		DefaultConfig      json.RawMessage `json:"defaultConfig"`
		DefaultConfigSnake json.RawMessage `json:"default_config"`
	}
	if err := yaml.Unmarshal([]byte(meshYAML), &mesh); err != nil {
		return Layer{}, fmt.Errorf("parse %s: %w", name, err)
	}
	if mesh.DefaultConfig == nil {
		mesh.DefaultConfig = mesh.DefaultConfigSnake
	}
	return Layer{Name: name + " (defaultConfig)", YAML: string(mesh.DefaultConfig)}, nil
}

// MergeLayers returns the layers merged over DefaultConfig; later layers override earlier ones.
// Deprecated fields are replaced by their successors. The result is not validated, see Validate. It
// returns the error of the first invalid layer, with its name.
func MergeLayers(layers ...Layer) (*meshconfig.ProxyConfig, error) {
	config := DefaultConfig()
	for _, layer := range layers {
		if err := layer.applyTo(config); err != nil {
			return nil, fmt.Errorf("proxy configuration from %s: %w", layer.Name, err)
		}
	}
	migrateDeprecatedFields(config)
	return config, nil
}

// applyTo sets the fields of the layer, including fields with a zero value. Fields are decoded one
// at a time, because protojson errors do not always name the field. It sets all valid fields and
// returns the errors of the others.
func (l Layer) applyTo(config *meshconfig.ProxyConfig) error {
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

// RetiredFields returns a warning for each field of the layer that Istio has retired. MergeLayers
// skips such fields, because a proxy must start with annotations written for an older version. It
// returns nil for a layer that cannot be parsed.
func (l Layer) RetiredFields() []string {
	var values map[string]json.RawMessage
	if err := yaml.Unmarshal([]byte(l.YAML), &values); err != nil {
		return nil
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if f, ok := retired.FieldOf("ProxyConfig", name); ok {
			list = append(list, fmt.Sprintf(
				"proxy configuration from %s: field %q is retired and has no effect: %s", l.Name, name, f.Successor))
		}
	}
	return list
}

// setField sets the field name, in JSON or protobuf spelling, to a JSON value. null leaves the
// field unchanged; proxyMetadata is merged; a default value clears the field. Retired fields are
// skipped; unknown ones and invalid values are an error.
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
		return fmt.Errorf("field %q: unknown field of ProxyConfig", name)
	}
	one, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return fmt.Errorf("field %q: %w", name, err)
	}
	parsed := &meshconfig.ProxyConfig{}
	if err := protojson.Unmarshal(one, parsed); err != nil {
		return fmt.Errorf("field %q: value %s: %s", name, value, trimProtojsonError(err))
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

// trimProtojsonError returns a protojson error without its "proto: (line 1:23): ", because that
// position refers to JSON that the user has not written.
func trimProtojsonError(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	if _, rest, ok := strings.Cut(text, "): "); ok {
		return rest
	}
	return strings.TrimPrefix(text, "proto: ")
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
