package workload

import (
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
)

// Mesh is a generated mesh and its state after changes. One goroutine uses it.
type Mesh struct {
	params      Params
	services    []*service
	byNamespace map[string][]*service
	objects     []*Object
	files       map[string][]*Object
	spares      map[string]*Object // services that were added and not removed, by name
}

// SharedNamespace is visible to every proxy in the scopes Mixed and Everything. Changes are made
// there by default.
const SharedNamespace = "bench-000"

// NamespaceName returns the name of the i-th namespace.
func NamespaceName(i int) string { return fmt.Sprintf("bench-%03d", i) }

// New makes a mesh. Each service is a mesh-internal ServiceEntry with a virtual IP, an HTTP and a
// TCP port, and endpoints in three zones. Half of the services have a DestinationRule with two
// subsets, a quarter one without, a third a VirtualService.
func New(p Params) (*Mesh, error) {
	if err := p.checkParams(); err != nil {
		return nil, err
	}
	m := &Mesh{
		params:      p,
		byNamespace: map[string][]*service{},
		files:       map[string][]*Object{},
		spares:      map[string]*Object{},
	}
	random := rand.New(rand.NewPCG(p.Seed, 0x5eed))
	address := 0
	for i := range p.Services {
		s := &service{
			index: i, namespace: NamespaceName(i % p.Namespaces), name: fmt.Sprintf("svc-%05d", i),
			header: headerPrefix + "000000", maxConnections: int32(512 + random.IntN(1024)),
		}
		for range p.Endpoints {
			address++
			s.addresses = append(s.addresses, fmt.Sprintf("10.%d.%d.%d", 16+address>>16, address>>8&255, address&255))
			s.zones = append(s.zones, random.IntN(3))
		}
		m.services = append(m.services, s)
		m.byNamespace[s.namespace] = append(m.byNamespace[s.namespace], s)
	}
	for i := range p.Namespaces {
		m.addServices(NamespaceName(i))
		m.addPolicies(i)
	}
	m.addMeshPolicy()
	return m, nil
}

// Params returns the parameters of the mesh.
func (m *Mesh) Params() Params { return m.params }

// Objects are all objects of the mesh, in a fixed order. The list must not be changed.
func (m *Mesh) Objects() []*Object { return m.objects }

func (m *Mesh) addServices(namespace string) {
	for j, s := range m.byNamespace[namespace] {
		s.subsets = j%2 == 0
		s.entry = m.addNetworking("ServiceEntry", namespace, s.name, "services", s.serviceEntry())
		if j%4 != 3 {
			s.rule = m.addNetworking("DestinationRule", namespace, s.name, "destinationrules", s.destinationRule())
		}
		if j%3 == 0 {
			s.virtual = m.addNetworking("VirtualService", namespace, s.name, "virtualservices", m.virtualService(s))
		}
	}
}

func (m *Mesh) addNetworking(kind, namespace, name, file string, spec proto.Message) *Object {
	return m.addObject("networking.istio.io", kind, namespace, name, file, spec)
}

func (m *Mesh) addSecurity(kind, namespace, name string, spec proto.Message) {
	m.addObject("security.istio.io", kind, namespace, name, "policy", spec)
}

func (m *Mesh) addObject(group, kind, namespace, name, file string, spec proto.Message) *Object {
	o := &Object{
		Group:     group,
		Version:   newestVersion(kind),
		Kind:      kind,
		Namespace: namespace,
		Name:      name,
		Spec:      spec,
		Revision:  1,
	}
	if o.file = namespace + "/" + file + ".yaml"; m.params.FilePerObject {
		o.file = namespace + "/" + file + "/" + name + ".yaml"
	}
	m.files[o.file] = append(m.files[o.file], o)
	m.objects = append(m.objects, o)
	return o
}

func virtualIP(i int) string {
	return fmt.Sprintf("10.%d.%d.%d", 96+(i+1)>>16, (i+1)>>8&255, (i+1)&255)
}

// newestVersion is the newest that a kind is served in.
func newestVersion(kind string) string {
	switch kind {
	case "EnvoyFilter":
		return "v1alpha3"
	case "ProxyConfig":
		return "v1beta1"
	}
	return "v1"
}

// SeesNamespace reports whether proxy i must be sent the services of a namespace.
func (m *Mesh) SeesNamespace(i int, namespace string) bool {
	own := i % m.params.Services % m.params.Namespaces
	switch m.params.Scope {
	case Namespace:
		return namespace == NamespaceName(own)
	case Mixed:
		return own%2 == 0 || namespace == NamespaceName(own) || namespace == NamespaceName(own-1) ||
			namespace == SharedNamespace
	default:
		return true
	}
}

// ProxyNamespace is the namespace of proxy i.
func (m *Mesh) ProxyNamespace(i int) string { return m.services[i%len(m.services)].namespace }
