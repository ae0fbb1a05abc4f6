package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Instance is one port of a service that the proxy's own workload serves.
type Instance struct {
	Service *mesh.Service
	Port    mesh.Port
	// TargetPort is the port on the workload.
	TargetPort uint32
}

// ref is an Instance by name, as a Key has it.
type ref struct {
	service mesh.ServiceKey
	port    uint32 // the service's port number
	target  uint32
}

// instances finds the service ports that a proxy's workload serves: services that select its labels (ready or not: its
// listeners must be there before it can become ready), and endpoints of its namespace that are listed with its address. Those of
// other namespaces do not count: anyone could otherwise change what the proxy serves with a ServiceEntry of its address.
func instances(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) []ref {
	w := workload(s, p)
	var refs []ref
	for _, svc := range s.Selecting(p.Namespace) {
		if !snapshot.Selects(svc.Selector, labels) {
			continue
		}
		for _, port := range svc.Ports {
			if target := target(port, w); target != 0 && port.Protocol.Captured() {
				refs = append(refs, ref{svc.ServiceKey, port.Number, target})
			}
		}
	}
	for _, a := range p.Addresses {
		at := s.At(a)
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
					refs = append(refs, ref{t.Service, port.Number, t.Port})
				}
			}
		}
	}
	slices.SortFunc(refs, compareRefs)
	return slices.Compact(refs)
}

// target resolves a service port on the proxy's own workload. Without a known workload a named target port cannot be
// resolved and the instance is left to the endpoints.
func target(p mesh.Port, w *mesh.Workload) uint32 {
	if w != nil {
		if own := w.Ports[p.Name]; own != 0 {
			return own
		}
		if p.TargetName != "" {
			return w.ContainerPorts[p.TargetName]
		}
	} else if p.TargetName != "" {
		return 0
	}
	return cmp.Or(p.Target, p.Number)
}

func compareRefs(a, b ref) int {
	return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.service.Host, b.service.Host),
		cmp.Compare(a.service.Namespace, b.service.Namespace), cmp.Compare(a.port, b.port))
}

// encodeInstances writes refs as "target/port/namespace/host" joined by ";".
func encodeInstances(refs []ref) string {
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

// decodeInstances reads what encodeInstances wrote, and finds the services. One that is gone since is left out.
// Two services on one target port: the older one comes first, and gives the port its protocol.
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
