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

// Options configure a Converter.
type Options struct {
	// Namespace is the namespace of the gateways that serve Ingresses (default "istio-system";
	// K8S_INGRESS_NS). Gateways are created in it, and certificates are read from it.
	Namespace string
	// Domain is the DNS suffix of services (default "cluster.local"; --domain).
	Domain string
	// Recovery confines panics to the object that causes them. If nil, they propagate.
	Recovery *recovery.Recorder
	// OnNodeAddressesChanged is called when the result of NodeAddresses changes, if it is set.
	OnNodeAddressesChanged func()
}

// name is the namespace and name of an object whose kind follows from the context.
type name = types.NamespacedName

// Converter converts the Ingresses of one cluster to Gateways and VirtualServices. It must be used
// by one goroutine at a time.
type Converter struct {
	options  Options
	guard    registry.Guard
	settings settings

	ingresses map[name]*config.Config    // of *networkingv1.Ingress
	classes   map[string]*config.Config  // of *networkingv1.IngressClass
	ports     map[name]map[string]uint32 // of Services, by port name
	rules     map[name]*rules            // of the Ingresses that the mesh serves

	byClass registry.Index[string, name] // Ingresses by the class that they name
	// served Ingresses by the Services whose ports they reference by name
	byService registry.Index[name, name]
	byHost    registry.Index[string, name] // served Ingresses by the hosts of their rules

	dirty      map[name]struct{}
	dirtyHosts map[string]struct{}
	emitted    emitted

	nodes         gatewayNodes
	nodeAddresses atomic.Pointer[[]string]
}

var _ registry.Converter = (*Converter)(nil)

// New returns a Converter without objects and with the default mesh configuration. The namespace is
// "istio-system" and the domain "cluster.local" if o does not set them.
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
		emitted:    newEmitted(),
		nodes:      newGatewayNodes(),
	}
}

// source is the source of all events that the Converter creates.
const source = "Ingress"

// Convert appends to the batch the changes that follow from its objects, at its end and before
// Synced: Gateways, then VirtualServices, each sorted. All input events are kept. An object that
// cannot be read is skipped with a Problem, and its last version stays.
func (c *Converter) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	for _, e := range batch {
		switch {
		case e.Config != nil:
			out, _ = c.guard.Try(
				out,
				registry.Read,
				e.Config.Key,
				e.Config.Origin,
				func() { c.storeObject(e.Op, e.Config) },
			)
		case e.Settings != nil && e.Settings.Mesh != nil:
			c.setSettings(settingsOf(e.Settings.Mesh))
		case e.Op == mesh.Synced:
			out = c.flush(out)
		}
		out = append(out, e)
	}
	return c.flush(out)
}

// storeObject stores the object of an event, or deletes it, and marks what must be converted again.
// Objects of other kinds than Ingress, IngressClass and Service can only change the addresses of
// nodes.
func (c *Converter) storeObject(op mesh.Op, object *config.Config) {
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
		if c.nodes.applyEvent(kind, k, c.options.Namespace, object) {
			c.updateNodeAddresses()
		}
	}
}

// setSettings replaces the settings, updates the addresses of nodes and marks all Ingresses. It
// does nothing if they are the same.
func (c *Converter) setSettings(now settings) {
	if now == c.settings {
		return
	}
	c.settings = now
	c.updateNodeAddresses()
	for k := range c.ingresses {
		c.dirty[k] = struct{}{}
	}
}

// setIngress stores an Ingress, or deletes it if now is nil, and marks it. It ignores an unchanged
// one. It panics, before any change, if the object is no Ingress.
func (c *Converter) setIngress(k name, now *config.Config) {
	class := ""
	if now != nil {
		class = className(now) // the only part that is read here
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

// setClass stores an IngressClass, or deletes it if now is nil, and marks the Ingresses that name
// it. It panics, before any change, if the object is no IngressClass.
func (c *Converter) setClass(class string, now *config.Config) {
	if now == nil {
		delete(c.classes, class)
	} else {
		// panics for an object that cannot be read, before the state changes
		_ = config.Spec[*networkingv1.IngressClass](now)
		c.classes[class] = now
	}
	for k := range c.byClass.Values(class) {
		c.dirty[k] = struct{}{}
	}
}

// setService stores the names of a Service's ports, or deletes them if object is nil, because
// backends can name ports. It marks the Ingresses that refer to its named ports.
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
	for ingress := range c.byService.Values(k) {
		c.dirty[ingress] = struct{}{}
	}
}

// namedPorts returns the numbers of a Service's ports by name, nil if none has a name. Invalid
// numbers are left out.
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
