package workload

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Group is a WorkloadGroup: the common properties of workloads of one kind.
type Group struct {
	Name, Namespace string
	Annotations     map[string]string
	Spec            *networking.WorkloadGroup
}

// ParseGroup returns the WorkloadGroup in a YAML text, with the defaults of its template. Unknown
// fields are ignored. It returns an error for other kinds and for groups without a name.
func ParseGroup(text []byte) (Group, error) {
	var o struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &o); err != nil {
		return Group{}, fmt.Errorf("parse a WorkloadGroup: %w", err)
	}
	if o.Kind != "WorkloadGroup" {
		return Group{}, fmt.Errorf("parse a WorkloadGroup: the kind is %q", o.Kind)
	}
	spec, err := yaml.Marshal(o.Spec)
	if err != nil {
		return Group{}, fmt.Errorf("parse a WorkloadGroup: %w", err)
	}
	g := Group{Name: o.Name, Namespace: o.Namespace, Annotations: o.Annotations, Spec: new(networking.WorkloadGroup)}
	if err := unmarshalYAML(spec, g.Spec); err != nil {
		return Group{}, fmt.Errorf("parse WorkloadGroup %q: %w", o.Name, err)
	}
	if g.Name == "" {
		return Group{}, errors.New("parse a WorkloadGroup: it has no name")
	}
	g.setDefaults()
	return g, nil
}

// setDefaults fills in empty metadata and template, and the service account "default".
func (g *Group) setDefaults() {
	if g.Spec.Metadata == nil {
		g.Spec.Metadata = new(networking.WorkloadGroup_ObjectMeta)
	}
	if g.Spec.Template == nil {
		g.Spec.Template = new(networking.WorkloadEntry)
	}
	if g.Spec.Template.ServiceAccount == "" {
		g.Spec.Template.ServiceAccount = "default"
	}
}

// parseMeshConfig parses a MeshConfig in YAML. Unknown fields are ignored, and empty text yields an
// empty MeshConfig.
func parseMeshConfig(text []byte) (*meshconfig.MeshConfig, error) {
	m := new(meshconfig.MeshConfig)
	if err := unmarshalYAML(text, m); err != nil {
		return nil, fmt.Errorf("parse the mesh configuration: %w", err)
	}
	return m, nil
}

// unmarshalYAML decodes YAML into a message, which is reset first. Unknown fields are ignored, so
// that newer releases can be read. Empty text changes nothing.
func unmarshalYAML(text []byte, into proto.Message) error {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	if string(asJSON) == "null" {
		return nil
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(asJSON, into)
}
