package workload

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// Object is one Istio object.
type Object struct {
	Group, Version, Kind string
	Namespace, Name      string
	Spec                 proto.Message
	// Annotations and Status are what quiet edits change.
	Annotations map[string]string
	Status      map[string]any
	// Revision is raised by each change.
	Revision int

	file string
	doc  []byte // its YAML, nil after a change
}

// TypeURL is that of config over xDS: "networking.istio.io/v1/ServiceEntry".
func (o *Object) TypeURL() string { return o.Group + "/" + o.Version + "/" + o.Kind }

// File is the path of its file under the directory of the mesh.
func (o *Object) File() string { return o.file }

// markChanged marks an object as changed. A nil spec leaves the spec unchanged.
func (o *Object) markChanged(spec proto.Message) *Object {
	if spec != nil {
		o.Spec = spec
	}
	o.doc = nil
	o.Revision++
	return o
}

// renderYAML renders the object as one document.
func (o *Object) renderYAML() ([]byte, error) {
	if o.doc != nil {
		return o.doc, nil
	}
	spec, err := protojson.Marshal(o.Spec)
	if err != nil {
		return nil, fmt.Errorf("render %s %s/%s: %w", o.Kind, o.Namespace, o.Name, err)
	}
	meta := map[string]any{"name": o.Name, "namespace": o.Namespace}
	if len(o.Annotations) > 0 {
		meta["annotations"] = o.Annotations
	}
	document := map[string]any{
		"apiVersion": o.Group + "/" + o.Version, "kind": o.Kind, "metadata": meta, "spec": json.RawMessage(spec),
	}
	if o.Status != nil {
		document["status"] = o.Status
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("render %s %s/%s: %w", o.Kind, o.Namespace, o.Name, err)
	}
	o.doc, err = yaml.JSONToYAML(raw)
	return o.doc, err
}
