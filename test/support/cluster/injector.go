package cluster

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/manifests"
)

// InjectorConfig returns the data of the ConfigMap istio-sidecar-injector with the templates and
// values of the chart.
func InjectorConfig(t testing.TB) map[string]string {
	t.Helper()
	templates, err := manifests.InjectionTemplates()
	if err != nil {
		t.Fatal(err)
	}
	config, err := yaml.Marshal(map[string]any{"policy": "enabled", "templates": templates})
	if err != nil {
		t.Fatal(err)
	}
	values, err := manifests.InjectionValues()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{inject.ConfigKey: string(config), inject.ValuesKey: string(values)}
}
