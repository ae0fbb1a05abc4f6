// Package manifests has what installs meshpilot, where programs need it too: the templates of
// injection are one copy, in the chart and in the programs.
//
// In: nothing. Out: the files, as they were when the program was built. Law: no code but their names.
package manifests

import (
	"embed"
	"errors"

	"sigs.k8s.io/yaml"
)

//go:embed charts/istiod/files/*.yaml charts/istiod/values.yaml
var files embed.FS

// InjectionTemplates gives the templates that pods can be injected with, by name.
func InjectionTemplates() (map[string]string, error) {
	list, err := files.ReadDir("charts/istiod/files")
	if err != nil {
		return nil, err
	}
	templates := map[string]string{}
	for _, f := range list {
		text, err := files.ReadFile("charts/istiod/files/" + f.Name())
		if err != nil {
			return nil, err
		}
		templates[f.Name()[:len(f.Name())-len(".yaml")]] = string(text)
	}
	return templates, nil
}

// InjectionValues gives the values that templates see where nothing was set when the chart was installed, in YAML.
func InjectionValues() ([]byte, error) {
	text, err := files.ReadFile("charts/istiod/values.yaml")
	if err != nil {
		return nil, err
	}
	var file struct {
		Defaults map[string]any `json:"_internal_defaults_do_not_set"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	v := file.Defaults
	global, ok := v["global"].(map[string]any)
	if !ok {
		return nil, errors.New("the chart's values have no global")
	}
	for _, name := range []string{"hub", "tag"} { // the chart does the same
		if global[name] == nil || global[name] == "" {
			global[name] = v[name]
		}
	}
	return yaml.Marshal(map[string]any{
		"global": global, "revision": v["revision"], "sidecarInjectorWebhook": v["sidecarInjectorWebhook"],
		"gateways": v["gateways"],
		"pilot":    map[string]any{"cni": v["cni"], "env": v["env"]},
	})
}
