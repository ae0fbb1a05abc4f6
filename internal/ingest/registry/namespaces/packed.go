package namespaces

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// object is an object of a namespace, selected or not. It is kept because sources send each object
// only once.
type object struct {
	source string
	config *config.Config
	// pod is the encoded spec of a Pod without the metadata in config, which then has no spec. Only
	// this package keeps Pods. They are the most numerous objects, and decoded ones are several
	// times larger.
	pod []byte
}

// newObject returns the object of an event, with the spec of a Pod encoded to save memory. The Pod
// must have the same name, namespace, labels and annotations as the Config. If encoding fails, the
// Pod is kept as it is.
func newObject(e mesh.Event) object {
	o := object{source: e.Source, config: e.Config}
	if p, ok := e.Config.Spec.(*corev1.Pod); ok {
		p := *p
		p.Name, p.Namespace, p.Labels, p.Annotations = "", "", nil, nil
		if encoded, err := p.Marshal(); err == nil {
			o.pod = encoded
			o.config = &config.Config{Meta: e.Config.Meta, Hash: e.Config.Hash}
		}
	}
	return o
}

// event returns an upsert of the object, with the Pod decoded if it was packed. It panics if the
// Pod cannot be decoded.
func (o object) event() mesh.Event {
	c := o.config
	if o.pod != nil {
		p := new(corev1.Pod)
		if err := p.Unmarshal(o.pod); err != nil {
			panic("namespaces: decode a Pod that was encoded here: " + err.Error())
		}
		p.Name, p.Namespace, p.Labels, p.Annotations = c.Name, c.Namespace, c.Labels, c.Annotations
		c = &config.Config{Meta: c.Meta, Spec: p, Hash: c.Hash}
	}
	return mesh.Event{Source: o.source, Config: c}
}
