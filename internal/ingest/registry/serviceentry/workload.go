package serviceentry

import (
	"cmp"
	"maps"
	"strconv"

	"istio.io/api/annotation"
	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// healthChecked is the annotation of a WorkloadEntry whose agent checks the application's health and puts what it finds
// into the status.
const healthChecked = "proxy.istio.io/health-checks-enabled"

// workloadEntry converts a WorkloadEntry. It gives nil for one that has neither an address nor a network.
func (r *reader) workloadEntry(spec *networking.WorkloadEntry) *mesh.Workload {
	if spec.GetAddress() == "" && spec.GetNetwork() == "" {
		r.wrong(config.Error, "spec.address", "is missing, and so is the network whose gateways would know the way")
		return nil
	}
	labels := r.workloadLabels(spec)
	e := r.endpoint(spec, labels)
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
		Ready:     r.healthy(),
		From:      r.object.Key,
	}
	if e.Address != "" {
		w.Addresses = []string{e.Address}
	}
	return w.Sealed()
}

// workloadLabels are those of the spec and of the object, which go before.
func (r *reader) workloadLabels(spec *networking.WorkloadEntry) map[string]string {
	if len(r.object.Labels) == 0 {
		return spec.GetLabels()
	}
	labels := maps.Clone(r.object.Labels)
	for k, v := range spec.GetLabels() {
		if own, given := labels[k]; !given {
			labels[k] = v
		} else if own != v {
			r.wrong(config.Warning, "spec.labels["+k+"]", "%q is not used: the object's own label is %q", v, own)
		}
	}
	return labels
}

// owner names what the workload is one of: the WorkloadGroup that it was registered for, as people know it.
func (r *reader) owner(labels map[string]string) string {
	return cmp.Or(r.object.Annotations[annotation.IoIstioAutoRegistrationGroup.Name], labels[label.ServiceWorkloadName.Name], r.object.Name)
}

// healthy says whether the workload is to get traffic. One that is checked gets none before it was found well.
func (r *reader) healthy() bool {
	checked, _ := strconv.ParseBool(r.object.Annotations[healthChecked])
	return !checked || r.object.Status != nil && r.object.Status.Healthy
}
