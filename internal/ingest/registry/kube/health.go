package kube

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// sliceRules is what of a Service decides how its slices are read.
type sliceRules struct {
	// notReady: conditions are to be disregarded (Service.spec.publishNotReadyAddresses).
	notReady bool
	// readyOnly: endpoints that are not ready are left out. See Options.ReadyOnly.
	readyOnly bool
	// sessions: endpoints that are going keep the sessions that they have.
	sessions bool
	// dualStack: a pod's addresses of both families are one endpoint.
	dualStack bool
}

// sliceRules reads the rules of a Service; without one (nil) they are those of one that says nothing.
func (c *Converter) sliceRules(service *config.Config) sliceRules {
	rules := sliceRules{readyOnly: c.options.ReadyOnly}
	if service == nil {
		return rules
	}
	spec := &config.Spec[*corev1.Service](service).Spec
	rules.notReady = spec.PublishNotReadyAddresses
	rules.readyOnly = rules.readyOnly && c.trafficDistribution(service.Namespace, spec, service.Annotations, new(problems)) == ""
	rules.sessions = c.options.Labels.SessionOf(service.Labels).Kept()
	rules.dualStack = c.options.DualStack && len(spec.ClusterIPs) > 1
	return rules
}

// health says how an endpoint with these conditions is, and whether it is there at all. As in Istio one that is not ready
// yet is known to callers, who do not call it, and one that ends is not there, unless sessions lead to it. What is not said
// of an endpoint counts as true (EndpointConditions).
func (r sliceRules) health(c discoveryv1.EndpointConditions) (health mesh.Health, there bool) {
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
