package migration

import (
	"bytes"
	"encoding/json"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// subject is something that selectors select fields of: an object, the template of its pods, or a
// document in a ConfigMap.
type subject struct {
	kind     string
	document lint.Document
	root     map[string]any
	// within is the path of root in the document, or empty.
	within string
	// text is the YAML of a document in a ConfigMap, which is at within.
	text []byte
}

// readSubjects returns the subjects of all documents. Documents that are not JSON objects are left
// out. Templates of pods, and the settings in ConfigMaps of istiod, are subjects of their own.
func readSubjects(documents []lint.Document) []*subject {
	var list []*subject
	for _, d := range documents {
		var root map[string]any
		if json.Unmarshal(d.Body, &root) != nil {
			continue
		}
		s := &subject{kind: string(d.Key.Kind), document: d, root: root}
		list = append(list, s)
		switch s.kind {
		case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
			if template, ok := first(root, "spec.template").(map[string]any); ok {
				list = append(list, &subject{kind: string(api.Pod), document: d, root: template,
					within: "spec.template"})
			}
		case string(api.ConfigMap):
			list = append(list, readSettings(s)...)
		}
	}
	return list
}

// readSettings returns the mesh configuration and networks, in no particular order, in a ConfigMap
// of istiod, whose name is istio or begins with "istio-". It returns nil for other ConfigMaps. A
// text that is not YAML of an object is left out.
func readSettings(s *subject) []*subject {
	if name := s.document.Key.Name; name != "istio" && !strings.HasPrefix(name, "istio-") {
		return nil
	}
	var list []*subject
	for key, kind := range map[string]string{"mesh": "MeshConfig", "meshNetworks": "MeshNetworks"} {
		text, _ := first(s.root, "data."+key).(string)
		var root map[string]any
		if text != "" && yaml.Unmarshal([]byte(text), &root) == nil && root != nil {
			list = append(list, &subject{
				kind: kind, document: s.document, root: root, within: "data." + key, text: []byte(text),
			})
		}
	}
	return list
}

// first returns the value of the first field at a path, or nil if there is none.
func first(root any, path string) any {
	if list := selectFields(root, path); len(list) > 0 {
		return list[0].value
	}
	return nil
}

// labels returns the labels of the object.
func (s *subject) labels() any { return first(s.root, "metadata.labels") }

// isOwnedPod reports whether s is a pod that a controller has created from a template, from which
// its labels and annotations are.
func (s *subject) isOwnedPod() bool {
	return s.kind == string(api.Pod) && s.within == "" && first(s.root, "metadata.ownerReferences[*]") != nil
}

// locate returns the path of a field in the document, and its line and column. For a document in a
// ConfigMap, the path is that in the inner document. Its position is that of the ConfigMap's key if
// the text is not a block of lines.
func (s *subject) locate(path string) (full string, line, column int) {
	if s.text == nil {
		full = strings.Trim(s.within+"."+path, ".")
		line, column = s.document.Position(full)
		return full, line, column
	}
	line, column = s.document.Position(s.within)
	inner, at := decode.NewLocator("mesh.yaml", s.text).Position(1, "", path)
	source, text := bytes.Split(s.document.Source, []byte("\n")), bytes.Split(s.text, []byte("\n"))
	for outer := line + inner; inner > 0 && outer >= line+inner-1; outer-- {
		if outer-1 >= len(source) || outer < 1 || inner > len(text) {
			continue
		}
		if indent := bytes.Index(source[outer-1], bytes.TrimRight(text[inner-1], " ")); indent >= 0 {
			return path, outer, indent + at
		}
	}
	return path, line, column // not a block of lines
}
