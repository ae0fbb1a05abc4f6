package environment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	metaPrefix     = "ISTIO_META_"
	metaJSONPrefix = "ISTIO_METAJSON_"
)

// readMetadata reads ISTIO_META_* and ISTIO_METAJSON_* into e.Metadata, but the JSON of LABELS and
// ANNOTATIONS into e.Labels and e.Annotations. Members of JSON objects override plain values, and
// objects are merged in the order of their names. Invalid JSON is left out and added to r's errors.
// Invalid ISTIO_META_POD_PORTS add a warning to e.
func (r *reader) readMetadata(e *Environment) {
	e.Metadata = map[string]any{}
	var objects []string
	for name, value := range r.vars {
		if key, ok := strings.CutPrefix(name, metaPrefix); ok && key != "" {
			e.Metadata[key] = value
		}
		if strings.HasPrefix(name, metaJSONPrefix) {
			objects = append(objects, name)
		}
	}
	slices.Sort(objects)
	for _, name := range objects {
		switch key := strings.TrimPrefix(name, metaJSONPrefix); key {
		case "LABELS":
			e.Labels = r.readStringMap(name)
		case "ANNOTATIONS":
			e.Annotations = r.readStringMap(name)
		default:
			r.mergeJSON(name, key, e.Metadata)
		}
	}
	warnPodPorts(e)
}

// warnPodPorts adds a warning to e if a port in ISTIO_META_POD_PORTS, or the whole list, is
// invalid. The metadata is unchanged: the control plane leaves invalid ports out.
func warnPodPorts(e *Environment) {
	const variable = "ISTIO_META_POD_PORTS"
	ports, there := e.Metadata[strings.TrimPrefix(variable, metaPrefix)]
	if !there {
		return
	}
	text, err := json.Marshal(ports)
	if err == nil {
		err = mesh.PortListFault(text)
	}
	if err != nil {
		e.Warnings = append(e.Warnings, fmt.Sprintf("environment variable %s: %v; invalid ports are left out", variable, err))
	}
}

// mergeJSON merges the members of the JSON object in the variable name into metadata. Any other
// JSON value is set as metadata[key]. Invalid JSON is added to r's errors and changes nothing.
func (r *reader) mergeJSON(name, key string, metadata map[string]any) {
	var value any
	if err := json.Unmarshal([]byte(r.vars[name]), &value); err != nil {
		r.addError(name, "invalid JSON: %w", err)
		return
	}
	object, ok := value.(map[string]any)
	if !ok {
		metadata[key] = value
		return
	}
	for k, v := range object {
		metadata[k] = v
	}
}
