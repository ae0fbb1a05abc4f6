package serviceentry

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"istio.io/api/annotation"
	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// healthChecked is the annotation of a WorkloadEntry whose agent checks the health of the
// application and writes the result to the status.
const healthChecked = "proxy.istio.io/health-checks-enabled"

// workloadEntry returns the workload of a WorkloadEntry. It returns nil, with a Problem, if the
// entry has neither an address nor a network. Invalid ports are left out with a Problem.
func (r *reader) workloadEntry(spec *networking.WorkloadEntry) *mesh.Workload {
	if spec.GetAddress() == "" && spec.GetNetwork() == "" {
		r.addProblem(config.Error, "spec.address",
			"is missing, and so is the network whose gateways would route to it")
		return nil
	}
	labels := r.workloadLabels(spec)
	e := r.newEndpoint(spec, labels)
	w := mesh.Workload{
		Provider:  mesh.External,
		Cluster:   e.Cluster,
		Namespace: r.object.Namespace,
		Name:      r.object.Name,
		Owner:     r.owner(labels),
		Ports:     r.ownPorts("spec", spec),
		Labels:    e.Labels,
		Account:   e.Account,
		Locality:  e.Locality,
		Network:   e.Network,
		Weight:    e.Weight,
		Health:    e.Health,
		TLS:       e.TLS,
		Ready:     r.isHealthy(),
		From:      r.object.Key,
	}
	if e.Address != "" {
		w.Addresses = []string{e.Address}
	}
	return w.Sealed()
}

// workloadLabels returns the labels of the WorkloadEntry, and reports a Problem for each label of
// the spec that is not used (config.WorkloadEntryLabels), sorted by label. The result may be the
// map of the spec.
func (r *reader) workloadLabels(spec *networking.WorkloadEntry) map[string]string {
	labels := config.WorkloadEntryLabels(r.object)
	for _, k := range slices.Sorted(maps.Keys(spec.GetLabels())) {
		if v, used := spec.GetLabels()[k], labels[k]; used != v {
			r.addProblem(config.Warning, "spec.labels["+k+"]", "%q is not used: the object's own label is %q", v, used)
		}
	}
	return labels
}

// owner returns the name of the workload's group: the WorkloadGroup for which it was registered,
// else the label, else its own name.
func (r *reader) owner(labels map[string]string) string {
	return cmp.Or(
		r.object.Annotations[annotation.IoIstioAutoRegistrationGroup.Name],
		labels[label.ServiceWorkloadName.Name],
		r.object.Name,
	)
}

// isHealthy reports whether the workload may receive traffic. With health checks, that requires a
// successful check. A malformed annotation is no health check.
func (r *reader) isHealthy() bool {
	checked, _ := strconv.ParseBool(r.object.Annotations[healthChecked])
	return !checked || r.object.Status != nil && r.object.Status.Healthy
}
