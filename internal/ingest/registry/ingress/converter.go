package ingress

import (
	"cmp"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Options say where the objects are that are made.
type Options struct {
	// Namespace is that of the gateways that serve Ingresses (K8S_INGRESS_NS): Gateways are made in it, and certificates are
	// looked for there. "istio-system" if empty.
	Namespace string
	// Domain is the DNS suffix of services (--domain); "cluster.local" if empty.
	Domain string
	// Recovery confines panics to the object that causes them. If nil, they pass.
	Recovery *recovery.Recorder
	// Moved, if set, is told when NodeAddresses gives others.
	Moved func()
}

// name is the namespace and name of an object whose kind is clear from the context.
type name = types.NamespacedName

// Converter converts the Ingresses of one cluster. It is used by one goroutine.
type Converter struct {
	options  Options
	guard    registry.Guard
	settings settings

	ingresses map[name]*config.Config    // of *networkingv1.Ingress
	classes   map[string]*config.Config  // of *networkingv1.IngressClass
	ports     map[name]map[string]uint32 // of Services, by the names of ports
	rules     map[name]*rules            // of the Ingresses that are ours

	byClass   registry.Index[string, name] // Ingresses by the class that they name
	byService registry.Index[name, name]   // our Ingresses by the Services whose ports they name
	byHost    registry.Index[string, name] // our Ingresses by the hosts that they have rules for

	dirty      map[name]struct{}
	dirtyHosts map[string]struct{}
	said       said

	nodes         gatewayNodes
	nodeAddresses atomic.Pointer[[]string]
}

var _ registry.Converter = (*Converter)(nil)

// New makes a Converter that knows no objects, and default settings.
func New(o Options) *Converter {
	o.Namespace = cmp.Or(o.Namespace, "istio-system")
	o.Domain = cmp.Or(o.Domain, "cluster.local")
	return &Converter{
		options:    o,
		guard:      registry.Guard{Recovery: o.Recovery, Source: source},
		settings:   settingsOf(mesh.DefaultMeshConfig()),
		ingresses:  map[name]*config.Config{},
		classes:    map[string]*config.Config{},
		ports:      map[name]map[string]uint32{},
		rules:      map[name]*rules{},
		dirty:      map[name]struct{}{},
		dirtyHosts: map[string]struct{}{},
		said:       newSaid(),
		nodes:      newGatewayNodes(),
	}
}

// source is whose events those are that the Converter makes.
const source = "Ingress"

// Convert adds to the batch, at its end or before Synced, what follows from the objects in it: Gateways, then VirtualServices, each
// sorted by namespace and name.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Config != nil:
			out, _ = c.guard.Try(out, registry.Read, e.Config.Key, e.Config.Origin, func() { c.take(e.Op, e.Config) })
		case e.Settings != nil && e.Settings.Mesh != nil:
			c.setSettings(settingsOf(e.Settings.Mesh))
		case e.Op == mesh.Synced:
			out = c.flush(out)
		}
		out = append(out, e)
	}
	return c.flush(out)
}

func (c *Converter) take(op mesh.Op, object *config.Config) {
	k := name{Namespace: object.Namespace, Name: object.Name}
	kind := object.Kind
	if op == mesh.Delete {
		object = nil
	}
	switch kind {
	case api.Ingress:
		c.setIngress(k, object)
	case api.IngressClass:
		c.setClass(k.Name, object)
	case api.Service:
		c.setService(k, object)
	default:
		if c.nodes.take(kind, k, c.options.Namespace, object) {
			c.showNodes()
		}
	}
}

func (c *Converter) setSettings(now settings) {
	if now == c.settings {
		return
	}
	c.settings = now
	c.showNodes()
	for k := range c.ingresses {
		c.dirty[k] = struct{}{}
	}
}

func (c *Converter) setIngress(k name, now *config.Config) {
	class := ""
	if now != nil {
		class = className(now) // all that is read of it
	}
	if old := c.ingresses[k]; old != nil {
		if now != nil && old.Hash != 0 && old.Hash == now.Hash && old.Origin == now.Origin {
			return
		}
		c.byClass.Remove(className(old), k)
	}
	if now == nil {
		delete(c.ingresses, k)
	} else {
		c.ingresses[k] = now
		c.byClass.Add(class, k)
	}
	c.dirty[k] = struct{}{}
}

func (c *Converter) setClass(class string, now *config.Config) {
	if now == nil {
		delete(c.classes, class)
	} else {
		_ = config.Spec[*networkingv1.IngressClass](now) // one that cannot be read is not taken up
		c.classes[class] = now
	}
	for k := range c.byClass.Of(class) {
		c.dirty[k] = struct{}{}
	}
}

// setService takes up the names of a Service's ports, by which backends may name them.
func (c *Converter) setService(k name, object *config.Config) {
	var ports map[string]uint32
	if object != nil {
		ports = namedPorts(config.Spec[*corev1.Service](object))
	}
	if len(ports) > 0 {
		c.ports[k] = ports
	} else {
		delete(c.ports, k)
	}
	for ingress := range c.byService.Of(k) {
		c.dirty[ingress] = struct{}{}
	}
}

func namedPorts(service *corev1.Service) map[string]uint32 {
	var ports map[string]uint32
	for _, p := range service.Spec.Ports {
		if p.Name == "" || p.Port < 1 || p.Port > 65535 {
			continue
		}
		if ports == nil {
			ports = make(map[string]uint32, len(service.Spec.Ports))
		}
		ports[p.Name] = uint32(p.Port)
	}
	return ports
}
