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

// Group is a WorkloadGroup: what all workloads of one kind have in common.
type Group struct {
	Name, Namespace string
	Annotations     map[string]string
	Spec            *networking.WorkloadGroup
}

// ParseGroup reads a WorkloadGroup in YAML. What it leaves out of its template is filled in.
func ParseGroup(text []byte) (Group, error) {
	var o struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &o); err != nil {
		return Group{}, fmt.Errorf("read a WorkloadGroup: %w", err)
	}
	if o.Kind != "WorkloadGroup" {
		return Group{}, fmt.Errorf("read a WorkloadGroup: it is a %q", o.Kind)
	}
	spec, err := yaml.Marshal(o.Spec)
	if err != nil {
		return Group{}, fmt.Errorf("read a WorkloadGroup: %w", err)
	}
	g := Group{Name: o.Name, Namespace: o.Namespace, Annotations: o.Annotations, Spec: new(networking.WorkloadGroup)}
	if err := parse(spec, g.Spec); err != nil {
		return Group{}, fmt.Errorf("read WorkloadGroup %q: %w", o.Name, err)
	}
	if g.Name == "" {
		return Group{}, errors.New("read a WorkloadGroup: it has no name")
	}
	g.complete()
	return g, nil
}

func (g *Group) complete() {
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

func parseMeshConfig(text []byte) (*meshconfig.MeshConfig, error) {
	m := new(meshconfig.MeshConfig)
	if err := parse(text, m); err != nil {
		return nil, fmt.Errorf("read the mesh configuration: %w", err)
	}
	return m, nil
}

// parse reads YAML as a message. Fields of a newer release are left out.
func parse(text []byte, into proto.Message) error {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	if string(asJSON) == "null" {
		return nil
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(asJSON, into)
}
