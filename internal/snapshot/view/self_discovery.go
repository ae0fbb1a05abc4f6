package view

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// SelfDiscovery identifies the endpoints of mesh.LocalCluster: the endpoints of a service port that
// belong to the proxy's workload. The zero value means that the proxy does not request them, or is
// no endpoint of any service.
type SelfDiscovery struct {
	Service mesh.ServiceKey
	// Port is the number of the service's port.
	Port uint32
	// Workload is the name of the workload, for example of the Deployment.
	Workload string
	// Template and RolloutTemplate identify the ReplicaSet of a Deployment or of an Argo Rollout.
	// Traffic is balanced within one ReplicaSet only.
	Template, RolloutTemplate string
}

// Labels of Kubernetes and of Argo Rollouts that name the ReplicaSet of a pod.
const (
	templateLabel        = "pod-template-hash"
	rolloutTemplateLabel = "rollouts-pod-template-hash"
)

// selfDiscovery returns the service port that identifies the proxy's own workload, with the
// workload's name and template labels. It returns the zero value if the proxy has not enabled that
// or has none. Of several services it selects the oldest, as Istio does, and the lowest of its
// ports. Services that select a WorkloadEntry with the proxy's address have precedence over the
// services of its pod.
func selfDiscovery(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) SelfDiscovery {
	if !p.Metadata.EnableSelfDiscovery {
		return SelfDiscovery{}
	}
	refs := filterByWorkloadEntries(s, p, workloadInstances(s, p, labels))
	if len(refs) == 0 {
		return SelfDiscovery{}
	}
	first := slices.MinFunc(refs, func(a, b instanceRef) int {
		return cmp.Or(
			s.Service(a.service).Created.Compare(s.Service(b.service).Created),
			cmp.Compare(a.service.Host, b.service.Host),
			cmp.Compare(a.service.Namespace, b.service.Namespace),
			cmp.Compare(a.port, b.port),
		)
	})
	return SelfDiscovery{
		Service: first.service, Port: first.port, Workload: p.Metadata.WorkloadName,
		Template: labels[templateLabel], RolloutTemplate: labels[rolloutTemplateLabel],
	}
}

// filterByWorkloadEntries returns the refs whose services select a WorkloadEntry with the proxy's
// address and namespace. It returns all refs if there is no such service.
func filterByWorkloadEntries(s *snapshot.Snapshot, p *mesh.Proxy, refs []instanceRef) []instanceRef {
	entries := workloadEntries(s, p)
	var list []instanceRef
	for _, r := range refs {
		selector := s.Service(r.service).Selector
		if slices.ContainsFunc(entries,
			func(w *mesh.Workload) bool { return snapshot.SelectorMatches(selector, w.Labels) }) {
			list = append(list, r)
		}
	}
	if len(list) == 0 {
		return refs
	}
	return list
}

// workloadEntries returns the WorkloadEntries of the proxy's namespace that have one of its
// addresses. A WorkloadEntry with several of them is returned several times.
func workloadEntries(s *snapshot.Snapshot, p *mesh.Proxy) []*mesh.Workload {
	var list []*mesh.Workload
	for _, a := range p.Addresses {
		if at := s.Address(a); at != nil {
			for _, w := range at.Workloads {
				if w.From.Kind == api.WorkloadEntry && w.Namespace == p.Namespace {
					list = append(list, w)
				}
			}
		}
	}
	return list
}

// Includes reports whether an endpoint of the service belongs to the proxy's workload: the same
// owner, or without one the same name, and the same template labels.
func (d SelfDiscovery) Includes(e *mesh.Endpoint) bool {
	workload := e.Owner
	if workload == "" {
		workload = e.Workload
	}
	return workload == d.Workload && e.Labels[templateLabel] == d.Template &&
		e.Labels[rolloutTemplateLabel] == d.RolloutTemplate
}

// IsSelfDiscoveryAffectedBy reports whether d may have changed the endpoints of mesh.LocalCluster:
// its service or the endpoints of that changed. It returns true if d.All is set.
func (v *View) IsSelfDiscoveryAffectedBy(d snapshot.Delta) bool {
	if d.All {
		return true
	}
	_, service := d.Services[v.Key.SelfDiscovery.Service]
	_, endpoints := d.Endpoints[v.Key.SelfDiscovery.Service]
	return service || endpoints
}
