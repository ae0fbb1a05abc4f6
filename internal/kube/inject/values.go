package inject

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Values is the key values of the ConfigMap: the values of the installation, as templates see them.
type Values struct {
	// Tree is all of them.
	Tree map[string]any
	// known is what the injection itself goes by.
	known knownValues
}

type knownValues struct {
	Global struct {
		Hub     string `json:"hub"`
		Tag     any    `json:"tag"` // often a number, if not quoted
		Variant string `json:"variant"`
		Network string `json:"network"`
		Proxy   struct {
			Image                           string `json:"image"`
			HoldApplicationUntilProxyStarts bool   `json:"holdApplicationUntilProxyStarts"`
		} `json:"proxy"`
		ProxyInit struct {
			Image string `json:"image"`
		} `json:"proxy_init"`
		MultiCluster struct {
			ClusterName string `json:"clusterName"`
		} `json:"multiCluster"`
	} `json:"global"`
	SidecarInjectorWebhook struct {
		RewriteAppHTTPProbe bool `json:"rewriteAppHTTPProbe"`
	} `json:"sidecarInjectorWebhook"`
}

// ParseValues reads values from YAML or JSON.
func ParseValues(text []byte) (Values, error) {
	v := Values{}
	if err := yaml.Unmarshal(text, &v.Tree); err != nil {
		return v, fmt.Errorf("read the values: %w", err)
	}
	if err := yaml.Unmarshal(text, &v.known); err != nil {
		return v, fmt.Errorf("read the values: %w", err)
	}
	if v.Tree == nil {
		v.Tree = map[string]any{}
	}
	return v, nil
}
