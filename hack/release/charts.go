package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chartNames lists the charts of a release.
func chartNames() []string { return []string{"base", "cni", "gateway", "istiod"} }

// imageValue is a value of a chart that names an image.
type imageValue struct {
	path  []string
	image string
}

// imageValues returns the values that name images, by chart. They are defaults, which values.yaml
// has below a key of their own (ADR 47). A value with a slash is a whole reference, with which hub
// and tag have no effect.
func imageValues() map[string][]imageValue {
	const defaults = "_internal_defaults_do_not_set"
	return map[string][]imageValue{
		"cni": {{[]string{defaults, "image"}, "install-cni"}},
		"istiod": {
			{[]string{defaults, "image"}, "pilot"},
			{[]string{defaults, "global", "proxy", "image"}, "proxyv2"},
			{[]string{defaults, "global", "proxy_init", "image"}, "proxyv2"},
		},
	}
}

// writeCharts packages the charts. Their images are named by digest.
func (r *release) writeCharts(ctx context.Context, digests map[string]string) error {
	if err := r.runCommand(ctx, nil, "hack/crds.sh", "manifests/charts/base/files/crds.yaml"); err != nil {
		return err
	}
	for _, chart := range chartNames() {
		entries, err := directoryEntries(filepath.Join(r.source.root, "manifests/charts", chart), "")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.name == "values.yaml" })
		if i >= 0 {
			text, err := os.ReadFile(entries[i].from)
			if err != nil {
				return err
			}
			values := string(text)
			for _, v := range imageValues()[chart] {
				if values, err = setValue(values, r.reference(v.image)+"@"+digests[v.image], v.path...); err != nil {
					return fmt.Errorf("chart %s: %w", chart, err)
				}
			}
			entries[i].from, entries[i].text = "", values
		}
		if err := writeTarGzip(r.outPath(chart+"-"+r.version+".tgz"), chart, entries, r.source.time); err != nil {
			return err
		}
	}
	return nil
}

// setValue replaces a scalar in a YAML document and leaves all other text as it is, with its
// comments. It returns an error if there is no scalar at the path.
func setValue(document, value string, path ...string) (string, error) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(document), &root); err != nil {
		return "", err
	}
	node := &root
	if len(root.Content) > 0 {
		node = root.Content[0]
	}
	for _, key := range path {
		if node = findKey(node, key); node == nil {
			return "", fmt.Errorf("values.yaml has no %s", strings.Join(path, "."))
		}
	}
	if node.Kind != yaml.ScalarNode {
		return "", fmt.Errorf("%s of values.yaml is not a scalar", strings.Join(path, "."))
	}
	lines := strings.SplitAfter(document, "\n")
	line := lines[node.Line-1]
	old := node.Value
	if rest := line[node.Column-1:]; node.Style == yaml.DoubleQuotedStyle {
		old = rest[:strings.Index(rest[1:], `"`)+2]
	}
	lines[node.Line-1] = line[:node.Column-1] + value + strings.TrimPrefix(line[node.Column-1:], old)
	return strings.Join(lines, ""), nil
}

// findKey returns the value of a key of a mapping, or nil.
func findKey(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}
