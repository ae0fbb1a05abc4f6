package kube

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// sliceRules is the part of a Service that determines how its EndpointSlices are converted.
type sliceRules struct {
	// notReady ignores the conditions of endpoints (Service.spec.publishNotReadyAddresses).
	notReady bool
	// readyOnly leaves out endpoints that are not ready. See Options.ReadyOnly.
	readyOnly bool
	// sessions keeps terminating endpoints for their existing sessions.
	sessions bool
	// dualStack merges a pod's addresses of both families into one endpoint.
	dualStack bool
}

// sliceRules returns the rules of a Service for its EndpointSlices, or the defaults if service is
// nil. With publishNotReadyAddresses all endpoints are healthy. Others that are not ready are left
// out only with the option ReadyOnly and without a traffic distribution. Draining endpoints are
// used if its labels enable sessions. Dual-stack endpoints need the option DualStack and several
// cluster IPs.
func (c *Converter) sliceRules(service *config.Config) sliceRules {
	rules := sliceRules{readyOnly: c.options.ReadyOnly}
	if service == nil {
		return rules
	}
	spec := &config.Spec[*corev1.Service](service).Spec
	rules.notReady = spec.PublishNotReadyAddresses
	rules.readyOnly = rules.readyOnly &&
		c.trafficDistribution(service.Namespace, spec, service.Annotations, new(problems)) == ""
	rules.sessions = c.options.Labels.SessionOf(service.Labels).Enabled()
	rules.dualStack = c.options.DualStack && len(spec.ClusterIPs) > 1
	return rules
}

// endpointHealth returns the health of an endpoint with these conditions; there is false if it is
// left out. It is healthy if it is ready, or with notReady. Otherwise it is left out if it
// terminates, or with readyOnly, and unhealthy if not. With sessions, an endpoint that terminates
// but serves is draining. As in Istio, a missing condition is true, Terminating too.
func (r sliceRules) endpointHealth(c discoveryv1.EndpointConditions) (health mesh.Health, there bool) {
	isTrue := func(condition *bool) bool { return condition == nil || *condition }
	switch ends := isTrue(c.Terminating); {
	case r.notReady, isTrue(c.Ready):
		return mesh.Healthy, true
	case r.sessions && ends && isTrue(c.Serving):
		return mesh.Draining, true
	case ends || r.readyOnly:
		return "", false
	default:
		return mesh.Unhealthy, true
	}
}
