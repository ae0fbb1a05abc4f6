package serviceentry

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
)

// workloadEntry converts a WorkloadEntry. It gives nil for one that has no address.
func (r *reader) workloadEntry(spec *networking.WorkloadEntry) *mesh.Workload {
	if spec.GetAddress() == "" {
		r.wrong(config.Error, "spec.address", "is missing: reaching a workload through its network's gateway alone is not honoured yet")
		return nil
	}
	e := r.endpoint(spec)
	return mesh.Workload{
		Provider:  mesh.External,
		Cluster:   e.Cluster,
		Namespace: r.object.Namespace,
		Name:      r.object.Name,
		Owner:     r.object.Name,
		Addresses: []string{e.Address},
		Ports:     r.ownPorts("spec", spec),
		Labels:    e.Labels,
		Account:   e.Account,
		Locality:  e.Locality,
		Network:   e.Network,
		Weight:    e.Weight,
		TLS:       e.TLS,
		Ready:     true,
		From:      r.object.Key,
	}.Sealed()
}
