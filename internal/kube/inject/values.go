package inject

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Values is the key values of the ConfigMap: the values of the installation.
type Values struct {
	// Tree contains all values, for templates.
	Tree map[string]any
	// injector contains the values that this package reads.
	injector injectorValues
}

type injectorValues struct {
	Global struct {
		Hub     string `json:"hub"`
		Tag     any    `json:"tag"` // a number unless quoted
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

// ParseValues parses values in YAML or JSON. An empty text has an empty, non-nil Tree. It returns
// an error for invalid YAML, and for a value of the wrong type where the injector reads it.
func ParseValues(text []byte) (Values, error) {
	v := Values{}
	if err := yaml.Unmarshal(text, &v.Tree); err != nil {
		return v, fmt.Errorf("parse the values: %w", err)
	}
	if err := yaml.Unmarshal(text, &v.injector); err != nil {
		return v, fmt.Errorf("parse the values: %w", err)
	}
	if v.Tree == nil {
		v.Tree = map[string]any{}
	}
	return v, nil
}
