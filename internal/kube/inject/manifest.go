package inject

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// ManifestOptions contain the settings that a manifest lacks.
type ManifestOptions struct {
	// Namespace is the namespace of objects without one.
	Namespace string
	// NativeSidecars is true if the nodes support native sidecars.
	NativeSidecars bool
}

// InjectManifest returns a manifest of YAML documents, each an object or a List, with its workloads
// injected. Documents without an injected workload are unchanged, including comments; empty ones
// are dropped. Warnings name the workloads that were skipped, and why, and include those of
// injection. If any document fails, it returns nil, the warnings and the joined errors. It refuses
// a manifest with content on the line of a document marker.
func (s *Settings) InjectManifest(text []byte, o ManifestOptions) (out []byte, warnings []string, err error) {
	var errs []error
	parts, err := splitDocuments(text)
	if err != nil {
		return nil, nil, err
	}
	for i, d := range parts {
		changed, list, err := s.injectDocument(d, o)
		warnings = append(warnings, list...)
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", i+1, err))
		}
		if changed != nil {
			parts[i] = changed
		}
	}
	if len(errs) > 0 {
		return nil, warnings, errors.Join(errs...)
	}
	return bytes.Join(parts, []byte("---\n")), warnings, nil
}

// injectDocument returns a document with its workloads injected, also the ones in a List, and
// warnings. It returns nil if none was injected or the document is no object. The first workload
// that fails ends it with an error and the warnings so far; so does invalid YAML.
func (s *Settings) injectDocument(text []byte, o ManifestOptions) ([]byte, []string, error) {
	var whole any
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return nil, nil, err
	}
	object, ok := whole.(map[string]any)
	if !ok {
		return nil, nil, nil
	}
	objects := []any{object}
	if kind, _ := object["kind"].(string); strings.HasSuffix(kind, "List") {
		if items, ok := object["items"].([]any); ok {
			objects = items
		}
	}
	var warnings []string
	touched := false
	for _, x := range objects {
		one, ok := x.(map[string]any)
		if !ok {
			continue
		}
		changed, list, err := s.injectWorkload(one, o)
		if err != nil {
			return nil, warnings, err
		}
		warnings = append(warnings, list...)
		touched = touched || changed
	}
	if !touched {
		return nil, warnings, nil
	}
	out, err := yaml.Marshal(object)
	return out, warnings, err
}

// splitDocuments returns the YAML documents of a manifest without their markers ("---"). Documents
// with nothing but white space are dropped. Each document ends with a line feed and shares no
// memory with text. Like istioctl and kubectl, it returns an error for content on a marker's line.
func splitDocuments(text []byte) ([][]byte, error) {
	var out [][]byte
	var current []byte
	end := func() {
		if len(bytes.TrimSpace(current)) > 0 {
			out = append(out, current)
		}
		current = nil
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && isDocumentMarker(rest) {
			if content := bytes.TrimSpace(rest); len(content) > 0 && content[0] != '#' {
				return nil, fmt.Errorf("line %d: invalid YAML document separator: %s", number, content)
			}
			end()
			continue
		}
		current = append(current, line...)
		if line[len(line)-1] != '\n' {
			current = append(current, '\n')
		}
	}
	end()
	return out, nil
}

// isDocumentMarker reports whether three dashes at the beginning of a line, followed by rest, are a
// document marker: rest is empty or begins with white space.
func isDocumentMarker(rest []byte) bool {
	return len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t'
}
