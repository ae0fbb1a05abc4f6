package namespaces

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// object is one that a namespace has, whether or not it is let through: sources say everything once.
type object struct {
	source string
	config *config.Config
	// pod is the encoded spec of a Pod, which config is then without. Nobody else keeps Pods: there are more of them than of
	// anything, and decoded they are several times as big.
	pod []byte
}

func pack(e mesh.Event) object {
	o := object{source: e.Source, config: e.Config}
	if p, ok := e.Config.Spec.(*corev1.Pod); ok {
		if encoded, err := p.Marshal(); err == nil {
			o.pod = encoded
			o.config = &config.Config{Meta: e.Config.Meta, Hash: e.Config.Hash}
		}
	}
	return o
}

// event gives the event by which the object came.
func (o object) event() mesh.Event {
	c := o.config
	if o.pod != nil {
		p := new(corev1.Pod)
		if err := p.Unmarshal(o.pod); err != nil {
			panic("namespaces: decode a Pod that was encoded here: " + err.Error())
		}
		c = &config.Config{Meta: c.Meta, Spec: p, Hash: c.Hash}
	}
	return mesh.Event{Source: o.source, Config: c}
}
