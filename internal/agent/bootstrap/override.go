package bootstrap

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// ParseOverride returns the text of an ISTIO_BOOTSTRAP_OVERRIDE file as JSON for Envoy's
// --config-yaml, with $(HOST_IP) replaced. Envoy merges it over the bootstrap: messages field by
// field, lists by appending. It returns an error if the text is no YAML mapping, or uses the
// variable while hostIP is empty. A text without fields becomes "{}".
func ParseOverride(text []byte, hostIP string) (string, error) {
	replaced, err := replaceHostIP(string(text), hostIP)
	if err != nil {
		return "", err
	}
	// Only a mapping can be merged, and Envoy's own error does not name the invalid input.
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(replaced), &fields); err != nil {
		return "", fmt.Errorf("want a mapping of Bootstrap fields: %w", err)
	}
	if fields == nil { // Envoy refuses null
		return "{}", nil
	}
	js, err := yaml.YAMLToJSON([]byte(replaced))
	if err != nil {
		return "", fmt.Errorf("want a mapping of Bootstrap fields: %w", err)
	}
	return string(js), nil
}
