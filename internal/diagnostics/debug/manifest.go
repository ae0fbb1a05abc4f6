package debug

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// lastApplied is the annotation in which kubectl keeps the manifest that was applied last. It
// repeats the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Manifest returns a config object as a YAML document, with the version of its API that this
// program shows. It leaves out the resource version, and kubectl's annotation of the last applied
// configuration. It returns an error for a kind that is unknown. A spec that cannot be encoded is
// replaced by a text with the error.
func Manifest(c *config.Config) ([]byte, error) {
	kind, known := api.Info(c.Kind)
	if !known {
		return nil, fmt.Errorf("kind %q is not known", c.Kind)
	}
	o := newObject(kind, c)
	o.Metadata.ResourceVersion = ""
	o.Metadata.Annotations = withoutLastApplied(c.Annotations)
	return yaml.Marshal(o)
}

// specOfObject returns the JSON of the field spec of a Kubernetes object, or the object itself if
// it has none.
func specOfObject(o any) any {
	var parts map[string]json.RawMessage
	if body := asJSON(o); json.Unmarshal(body, &parts) == nil && parts["spec"] != nil {
		return parts["spec"]
	}
	return o
}

// withoutLastApplied returns the annotations without kubectl's last applied configuration: the map
// itself if it has none, and otherwise a copy.
func withoutLastApplied(annotations map[string]string) map[string]string {
	if _, ok := annotations[lastApplied]; !ok {
		return annotations
	}
	rest := map[string]string{}
	for k, v := range annotations {
		if k != lastApplied {
			rest[k] = v
		}
	}
	return rest
}
