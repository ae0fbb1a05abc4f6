package config

import (
	"maps"

	networking "istio.io/api/networking/v1alpha3"
)

// WorkloadEntryLabels returns the labels of the workload of a WorkloadEntry: the labels of its
// spec, overridden by the labels of the object. The result may be a map of c or its spec itself,
// and must not be changed; it is empty or nil if there are none.
func WorkloadEntryLabels(c *Config) map[string]string {
	spec := Spec[*networking.WorkloadEntry](c)
	if len(c.Labels) == 0 {
		return spec.GetLabels()
	}
	labels := maps.Clone(spec.GetLabels())
	if labels == nil {
		return c.Labels
	}
	maps.Copy(labels, c.Labels)
	return labels
}
