package bootstrap

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Override gives the text of an ISTIO_BOOTSTRAP_OVERRIDE file as Envoy's --config-yaml takes it: as JSON, with the node's
// address in place of $(HOST_IP). Envoy merges it over the bootstrap: messages field by field, lists one after the other.
func Override(text []byte, hostIP string) (string, error) {
	replaced, err := replaceHostIP(string(text), hostIP)
	if err != nil {
		return "", err
	}
	// Only a mapping can be merged; Envoy's own message for anything else does not say which of its inputs is meant.
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(replaced), &fields); err != nil {
		return "", fmt.Errorf("want a mapping of Bootstrap fields: %w", err)
	}
	js, err := yaml.YAMLToJSON([]byte(replaced))
	if err != nil {
		return "", fmt.Errorf("want a mapping of Bootstrap fields: %w", err)
	}
	return string(js), nil
}
