package analysis

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportWorkloadPorts adds Warnings for ports of AuthorizationPolicies (operation.ports) and
// PeerAuthentications (portLevelMtls) that are only a Service's. Its connections arrive at another
// port of the selected workloads, so a DENY at the former denies nothing. It skips policies without
// selector labels, policies of the root namespace, which are for workloads of several Services, and
// converted ones (Extension).
func (a *analyzer) reportWorkloadPorts() {
	for _, c := range a.s.Configs(api.AuthorizationPolicy) {
		spec := config.Spec[*security.AuthorizationPolicy](c)
		for field, n := range operationPorts(spec) {
			a.warnServicePort(c, spec.GetSelector().GetMatchLabels(), field, n)
		}
	}
	for _, c := range a.s.Configs(api.PeerAuthentication) {
		spec := config.Spec[*security.PeerAuthentication](c)
		for n := range spec.GetPortLevelMtls() {
			a.warnServicePort(c, spec.GetSelector().GetMatchLabels(), fmt.Sprintf("spec.portLevelMtls[%d]", n), n)
		}
	}
}

// warnServicePort adds a Warning for the field of a policy if servicePort finds a Service for the
// port number. It skips policies without labels, of the root namespace, or converted from another
// API.
func (a *analyzer) warnServicePort(c *config.Config, labels map[string]string, field string, number uint32) {
	if len(labels) == 0 || c.Namespace == a.s.Settings.RootNamespace || c.Extension != nil {
		return
	}
	if svc, target := a.servicePort(c.Namespace, labels, number); svc != nil {
		a.warn(code.PolicyPortUnused, c, field, fmt.Sprintf(
			"port %d of %s %q leads to port %d of the workload: policies match the workload's own ports",
			number, svc.From.Kind, svc.From.Name, target))
	}
}

// servicePort returns the Kubernetes Service that selects all workloads with the labels and maps
// the port number to another port, and this target. It returns nil and 0 if there is none, or if
// the workloads may have that port too. They may if another Service leads to it or a headless one
// has it, or if a Sidecar or container declares it. They also may if a target port is known only to
// the workload.
func (a *analyzer) servicePort(namespace string, labels map[string]string, number uint32) (*mesh.Service, uint32) {
	var found *mesh.Service
	var target uint32
	for _, svc := range a.s.ServicesWithSelector(namespace) {
		if labelsContradict(svc.Selector, labels) {
			continue
		}
		for _, p := range svc.Ports {
			switch {
			case p.Target == 0 || p.Target == number || svc.Headless && p.Number == number:
				return nil, 0
			case found == nil && p.Number == number && svc.Provider == mesh.Kubernetes &&
				snapshot.SelectorMatches(svc.Selector, labels):
				found, target = svc, p.Target
			}
		}
	}
	if found == nil || a.declaresPort(namespace, labels, number) {
		return nil, 0
	}
	return found, target
}

// declaresPort reports whether a container of a workload with the labels, or a Sidecar of the
// namespace that may apply to it, declares the port. It also returns true if a Gateway of any
// namespace selects the labels, because reportPolicyPorts checks these ports.
func (a *analyzer) declaresPort(namespace string, labels map[string]string, number uint32) bool {
	for _, w := range a.s.Workloads() {
		if w.Namespace != namespace || !snapshot.SelectorMatches(labels, w.Labels) {
			continue
		}
		for _, port := range w.ContainerPorts {
			if port.Number == number {
				return true
			}
		}
	}
	for _, c := range a.s.Configs(api.Sidecar) {
		spec := config.Spec[*networking.Sidecar](c)
		if c.Namespace != namespace || labelsContradict(spec.GetWorkloadSelector().GetLabels(), labels) {
			continue
		}
		for _, in := range spec.GetIngress() {
			if in.GetPort().GetNumber() == number {
				return true
			}
		}
	}
	for _, c := range a.s.Configs(api.Gateway) {
		if snapshot.SelectorMatches(config.Spec[*networking.Gateway](c).GetSelector(), labels) {
			return true // reportPolicyPorts has its ports
		}
	}
	return false
}
