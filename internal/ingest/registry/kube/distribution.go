package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// setNamespace stores the parts of a Namespace on which other objects depend, or deletes them if
// now is nil. A changed traffic distribution marks its Services, and with ReadyOnly their slices.
// In the system namespace, a changed network of the cluster marks all pods and slices.
func (c *Converter) setNamespace(namespace string, now *config.Config) {
	var distribution string
	var network mesh.Network
	if now != nil {
		distribution = now.Annotations[annotation.NetworkingTrafficDistribution.Name]
		network = mesh.Network(now.Labels[label.TopologyNetwork.Name])
	}
	if distribution != c.distributions[namespace] {
		if distribution == "" {
			delete(c.distributions, namespace)
		} else {
			c.distributions[namespace] = distribution
		}
		for k := range c.servicesIn.Values(namespace) {
			c.dirtyServices.add(k)
			if c.options.ReadyOnly {
				c.dirtySlices.addAll(c.slicesOf.Values(k))
			}
		}
	}
	if namespace == c.options.SystemNamespace && network != c.network {
		c.network = network
		c.markWorkloads()
	}
}

// trafficDistribution returns the canonical preference for near endpoints of a Service, "" for
// none: its field, else its annotation, else that of its namespace. Unknown values of the Service
// are reported in wrong. An unknown field falls back to the annotation, an unknown annotation is
// "".
func (c *Converter) trafficDistribution(
	namespace string,
	spec *corev1.ServiceSpec,
	annotations map[string]string,
	wrong *problems,
) string {
	const field = "networking.istio.io/traffic-distribution"
	if spec.TrafficDistribution != nil {
		if d, ok := registry.CanonicalDistribution(*spec.TrafficDistribution); ok {
			return d
		}
		wrong.add(config.Warning, "spec.trafficDistribution", unknownDistribution(*spec.TrafficDistribution))
	}
	if own := annotations[field]; own != "" {
		if d, ok := registry.CanonicalDistribution(own); ok {
			return d
		}
		wrong.add(config.Warning, "metadata.annotations["+field+"]", unknownDistribution(own))
		return ""
	}
	d, _ := registry.CanonicalDistribution(c.distributions[namespace])
	return d
}

// unknownDistribution returns the Problem's reason for an unknown value of the traffic
// distribution.
func unknownDistribution(value string) string {
	return fmt.Sprintf("%q is none of %s (or PreferClose), %s, Any; endpoints are not preferred by distance",
		value, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
}
