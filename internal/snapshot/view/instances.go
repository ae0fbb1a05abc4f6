package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Instance is one service port that the proxy's workload serves.
type Instance struct {
	Service *mesh.Service
	Port    mesh.Port
	// TargetPort is the port on the workload.
	TargetPort uint32
}

// instanceRef identifies an Instance in a Key.
type instanceRef struct {
	service mesh.ServiceKey
	port    uint32 // the service's port number
	target  uint32
}

// workloadInstances returns the service ports that a proxy's workload serves, sorted and without
// duplicates. They come from services of the proxy's namespace whose selector matches its labels or
// whose endpoints have its address. Ports with an unresolved target or a protocol that proxies do
// not capture are left out. A selected pod need not be ready: it becomes ready only after its
// listeners exist.
//
// Services of other namespaces are ignored: otherwise a ServiceEntry in any namespace could change
// the proxy's inbound listeners.
func workloadInstances(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) []instanceRef {
	refs := appendEndpointInstances(selectedInstances(s, p, labels), s, p)
	slices.SortFunc(refs, compareRefs)
	return slices.Compact(refs)
}

// selectedInstances returns the service ports of the services in the proxy's namespace whose
// selector matches labels. Ports with an unresolved target or a protocol that proxies do not
// capture are left out.
func selectedInstances(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) []instanceRef {
	w := findWorkload(s, p)
	var refs []instanceRef
	for _, svc := range s.ServicesWithSelector(p.Namespace) {
		if !snapshot.SelectorMatches(svc.Selector, labels) {
			continue
		}
		for _, port := range svc.Ports {
			if target := targetPort(port, w); target != 0 && port.Protocol.Captured() {
				refs = append(refs, instanceRef{svc.ServiceKey, port.Number, target})
			}
		}
	}
	return refs
}

// appendEndpointInstances appends to refs the service ports of the endpoints that have an address
// of a proxy, perhaps repeatedly. Services of other namespaces, and ports with a protocol that
// proxies do not capture, are left out.
func appendEndpointInstances(refs []instanceRef, s *snapshot.Snapshot, p *mesh.Proxy) []instanceRef {
	for _, a := range p.Addresses {
		at := s.Address(a)
		if at == nil {
			continue
		}
		for _, t := range at.Targets {
			svc := s.Service(t.Service)
			if svc == nil || svc.Namespace != p.Namespace {
				continue
			}
			for _, port := range svc.Ports {
				if port.Name == t.ServicePort && port.Protocol.Captured() {
					refs = append(refs, instanceRef{t.Service, port.Number, t.Port})
				}
			}
		}
	}
	return refs
}

// targetPort returns the port of the workload to which a service port maps, or 0 if it cannot be
// resolved. The workload's own port with the name of the service port has precedence. A named
// target port needs a known workload w that has it; for a nil w, the instance is found through its
// endpoints. Without a target it is the service port.
func targetPort(p mesh.Port, w *mesh.Workload) uint32 {
	if w != nil {
		if own := w.Ports[p.Name]; own != 0 {
			return own
		}
		if p.TargetName != "" {
			return w.ContainerPorts.Number(p.TargetName)
		}
	} else if p.TargetName != "" {
		return 0
	}
	return cmp.Or(p.Target, p.Number)
}

// compareRefs orders refs by target port, host, namespace and service port.
func compareRefs(a, b instanceRef) int {
	return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.service.Host, b.service.Host),
		cmp.Compare(a.service.Namespace, b.service.Namespace), cmp.Compare(a.port, b.port))
}

// encodeInstances formats refs as "target/port/namespace/host", joined by ";".
func encodeInstances(refs []instanceRef) string {
	var b strings.Builder
	for i, r := range refs {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(strconv.FormatUint(uint64(r.target), 10) + "/" + strconv.FormatUint(uint64(r.port), 10) + "/" +
			r.service.Namespace + "/" + string(r.service.Host))
	}
	return b.String()
}

// decodeInstances parses the output of encodeInstances and looks up the services. Services and
// ports that no longer exist are left out. The result is sorted by target port. Several services on
// one target port are sorted oldest first, and the first determines the protocol of the port.
func decodeInstances(s *snapshot.Snapshot, text string) []Instance {
	var list []Instance
	for one := range strings.SplitSeq(text, ";") {
		parts := strings.SplitN(one, "/", 4)
		if len(parts) != 4 {
			continue
		}
		svc := s.Service(mesh.ServiceKey{Namespace: parts[2], Host: mesh.Hostname(parts[3])})
		if svc == nil {
			continue
		}
		number, _ := strconv.ParseUint(parts[1], 10, 32)
		target, _ := strconv.ParseUint(parts[0], 10, 32)
		if port, ok := svc.Port(uint32(number)); ok {
			list = append(list, Instance{Service: svc, Port: port, TargetPort: uint32(target)})
		}
	}
	slices.SortStableFunc(list, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.TargetPort, b.TargetPort), a.Service.Created.Compare(b.Service.Created),
			cmp.Compare(a.Service.Host, b.Service.Host), cmp.Compare(a.Port.Number, b.Port.Number))
	})
	return list
}
