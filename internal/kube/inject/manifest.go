package inject

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// ManifestOptions say what a manifest itself does not.
type ManifestOptions struct {
	// Namespace is that of objects which name none.
	Namespace string
	// Native says that the nodes run sidecars as init containers.
	Native bool
}

// Manifest injects the workloads of a manifest: one or more YAML documents, each an object or a List. A document without anything
// to inject stays as it is, comments and all. Warnings say what was left alone, and why.
func (s *Settings) Manifest(text []byte, o ManifestOptions) (out []byte, warnings []string, err error) {
	var errs []error
	parts := documents(text)
	for i, d := range parts {
		changed, list, err := s.document(d, o)
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

// document gives a document with its workloads injected; nil: there is nothing to inject in it.
func (s *Settings) document(text []byte, o ManifestOptions) ([]byte, []string, error) {
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
		changed, list, err := s.workload(one, o)
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

// documents cuts a manifest at its document markers. Empty documents are left out.
func documents(text []byte) [][]byte {
	var out [][]byte
	var current []byte
	end := func() {
		if len(bytes.TrimSpace(current)) > 0 {
			out = append(out, current)
		}
		current = nil
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && marker(rest) {
			end()
			continue
		}
		current = append(current, line...)
		if line[len(line)-1] != '\n' {
			current = append(current, '\n')
		}
	}
	end()
	return out
}

// marker says whether what follows three dashes at the beginning of a line leaves them a document marker.
func marker(rest []byte) bool {
	text := bytes.TrimSpace(rest)
	return len(text) == 0 || text[0] == '#' && (rest[0] == ' ' || rest[0] == '\t')
}
