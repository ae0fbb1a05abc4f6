package workload

import (
	"fmt"
	"strconv"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// Change is a kind of change.
type Change string

// The kinds of change. Changes with a mark reach proxies; quiet ones must not.
const (
	// EndpointEdit adds or moves one endpoint of a service.
	EndpointEdit Change = "endpoint"
	// RouteEdit edits a VirtualService, RuleEdit a DestinationRule.
	RouteEdit Change = "route"
	RuleEdit  Change = "destinationrule"
	// AddService and RemoveService add a service and take it away again.
	AddService    Change = "newservice"
	RemoveService Change = "goneservice"
	// Rewrite writes an object as it is, MetadataEdit edits its annotations alone, StatusEdit its
	// status alone.
	Rewrite      Change = "rewrite"
	MetadataEdit Change = "metadata"
	StatusEdit   Change = "status"
)

// Types are the xDS types that carry the mark of a change to each proxy that sees its object; none
// if it is quiet.
func (c Change) Types() []wire.Type {
	switch c {
	case EndpointEdit:
		return []wire.Type{wire.EDS}
	case RouteEdit:
		return []wire.Type{wire.RDS}
	case RuleEdit, RemoveService:
		return []wire.Type{wire.CDS}
	case AddService:
		return []wire.Type{wire.CDS, wire.EDS, wire.LDS, wire.RDS}
	}
	return nil
}

// Edit is a change made to the mesh.
type Edit struct {
	Object *Object
	// Removed is set if the object was deleted.
	Removed bool
	// Target names the thing changed. A later change of the same kind to the same target overtakes
	// an earlier one.
	Target string
}

// MakeChange makes the n-th change of a kind in a namespace. number is the mark of it, unique among all
// changes; for RemoveService it is that of the AddService before.
func (m *Mesh) MakeChange(c Change, namespace string, n, number int) (Edit, error) {
	switch c {
	case AddService:
		return m.addService(namespace, number)
	case RemoveService:
		return m.removeService(number)
	}
	s, err := m.pickService(c, namespace, n)
	if err != nil {
		return Edit{}, err
	}
	var o *Object
	switch c {
	case EndpointEdit:
		if number >= maxEndpoint {
			return Edit{}, fmt.Errorf("change %d of an endpoint: there are marks for %d", number, maxEndpoint)
		}
		s.extra = endpointAddress(number)
		o = s.entry.markChanged(s.serviceEntry())
	case RouteEdit:
		s.header = HeaderValue(number)
		o = s.virtual.markChanged(m.virtualService(s))
	case RuleEdit:
		if poolBase+number > poolMax {
			return Edit{}, fmt.Errorf("change %d of a DestinationRule: there are marks for %d",
				number, poolMax-poolBase)
		}
		s.maxConnections = int32(poolBase + number)
		o = s.rule.markChanged(s.destinationRule())
	default:
		o = editQuietly(c, s, n, number)
	}
	return Edit{Object: o, Target: string(c) + "/" + s.name}, nil
}

// editQuietly edits a ServiceEntry, a DestinationRule or a VirtualService in turn, without saying
// anything new.
func editQuietly(c Change, s *service, n, number int) *Object {
	o := []*Object{s.entry, s.rule, s.virtual}[n%3]
	switch c {
	case MetadataEdit:
		o.Annotations = map[string]string{"bench/edit": strconv.Itoa(number)}
	case StatusEdit:
		o.Status = map[string]any{"observedGeneration": number, "conditions": []any{
			map[string]any{"type": "Reconciled", "status": "True", "message": strconv.Itoa(number)}}}
	}
	return o.markChanged(nil)
}

// pickService returns the n-th service that has the object that a change edits.
func (m *Mesh) pickService(c Change, namespace string, n int) (*service, error) {
	var pool []*service
	for _, s := range m.byNamespace[namespace] {
		switch {
		case c == RouteEdit && s.virtual == nil, c == RuleEdit && s.rule == nil:
		case len(c.Types()) == 0 && (s.virtual == nil || s.rule == nil):
		default:
			pool = append(pool, s)
		}
	}
	if len(pool) == 0 {
		return nil, fmt.Errorf("no service in namespace %q for a change of kind %q", namespace, c)
	}
	return pool[n%len(pool)], nil
}

func (m *Mesh) addService(namespace string, number int) (Edit, error) {
	s := &service{
		index: m.params.Services + 1000 + number, namespace: namespace, name: spareName(number),
	}
	for e := range m.params.Endpoints {
		s.addresses = append(s.addresses, fmt.Sprintf("10.200.%d.%d", number>>4&255, number&15<<4|e&15))
		s.zones = append(s.zones, e%3)
	}
	s.entry = m.addNetworking("ServiceEntry", namespace, s.name, "services", s.serviceEntry())
	m.spares[s.name] = s.entry
	return Edit{Object: s.entry, Target: string(AddService) + "/" + s.name}, nil
}

func (m *Mesh) removeService(number int) (Edit, error) {
	name := spareName(number)
	o := m.spares[name]
	if o == nil {
		return Edit{}, fmt.Errorf("remove service %q: it was not added", name)
	}
	delete(m.spares, name)
	m.files[o.file] = withoutObject(m.files[o.file], o)
	m.objects = withoutObject(m.objects, o)
	return Edit{Object: o, Removed: true, Target: string(RemoveService) + "/" + name}, nil
}

func spareName(number int) string { return fmt.Sprintf("%s%0*d", servicePrefix, digitsOfMark, number) }

func withoutObject(list []*Object, o *Object) []*Object {
	kept := make([]*Object, 0, len(list))
	for _, x := range list {
		if x != o {
			kept = append(kept, x)
		}
	}
	return kept
}

// MovePod replaces the pod of proxy i by another one with another address. It carries the mark of an
// EndpointEdit. The node is that of the new pod.
func (m *Mesh) MovePod(i, number int) (Edit, Node, error) {
	if number >= maxEndpoint {
		return Edit{}, Node{}, fmt.Errorf("move %d of an endpoint: there are marks for %d", number, maxEndpoint)
	}
	s, round := m.services[i%len(m.services)], i/len(m.services)
	place := round % len(s.addresses)
	if s.replaced == nil {
		s.replaced = map[int]string{}
	}
	s.replaced[place] = endpointAddress(number)
	n, err := s.nodeOf(i, s.replaced[place], round%2+1)
	if err != nil {
		return Edit{}, Node{}, fmt.Errorf("move endpoint %d: %w", i, err)
	}
	return Edit{Object: s.entry.markChanged(s.serviceEntry()), Target: fmt.Sprintf("move/%s/%d", s.name, place)}, n, nil
}
