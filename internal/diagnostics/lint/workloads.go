package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"istio.io/api/annotation"
	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// proxyContainer is the name of the proxy's container, and proxyUser its user.
const (
	proxyContainer = "istio-proxy"
	proxyUser      = 1337
)

// podOf returns the Pod in an object, as far as it can be decoded.
func podOf(o *object) *corev1.Pod { return decodeAs[corev1.Pod](o) }

// podSpec returns the spec and the labels of a Pod, or of the template of a Deployment. field is
// the path of the spec in the object.
func podSpec(o *object) (spec corev1.PodSpec, podLabels map[string]string, field string) {
	if o.key.Kind == api.Pod {
		return podOf(o).Spec, o.meta.Labels, "spec"
	}
	template := decodeAs[appsv1.Deployment](o).Spec.Template
	return template.Spec, template.Labels, "spec.template.spec"
}

// checkUsers reports containers of applications that run as the proxy's user. Pods and templates
// without a sidecar are included, because they may be injected. They are reported once for the pod
// and once for each container.
func (r *analysisRun) checkUsers() {
	for _, o := range r.ofKind(api.Pod, deployment) {
		spec, _, field := podSpec(o)
		if c := spec.SecurityContext; c != nil && c.RunAsUser != nil && *c.RunAsUser == proxyUser {
			r.report(
				code.InvalidApplicationUID,
				o,
				field+".securityContext.runAsUser",
				"%d is the user of the proxy",
				proxyUser,
			)
		}
		for i, c := range spec.Containers {
			if c.Name != proxyContainer && c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil &&
				*c.SecurityContext.RunAsUser == proxyUser {
				r.report(
					code.InvalidApplicationUID,
					o,
					fmt.Sprintf("%s.containers[%d].securityContext.runAsUser", field, i),
					"%d is the user of the proxy",
					proxyUser,
				)
			}
		}
	}
}

// portUse is a port of a Service that selects a Deployment.
type portUse struct {
	service string
	port    corev1.ServicePort
}

// checkDeploymentServices reports Deployments whose Services have several protocols at one port, or
// different ports for one target port (reportPortUses). It skips Deployments whose pods are not
// injected, and waypoints (label gateway.istio.io/managed). Services without a selector, or of
// another namespace, do not select a Deployment.
func (r *analysisRun) checkDeploymentServices() {
	for _, o := range r.ofKind(deployment) {
		_, podLabels, _ := podSpec(o)
		if !r.isInMesh(o, podLabels) || o.meta.Labels[label.GatewayManaged.Name] == "istio.io-mesh-controller" {
			continue
		}
		byPort, byTarget := map[int32][]portUse{}, map[string][]portUse{}
		for _, svc := range r.ofKind(api.Service) {
			spec := decodeAs[corev1.Service](svc).Spec
			if svc.key.Namespace != o.key.Namespace || len(spec.Selector) == 0 ||
				!labels.SelectorFromSet(spec.Selector).Matches(labels.Set(podLabels)) {
				continue
			}
			for _, p := range spec.Ports {
				byPort[p.Port] = append(byPort[p.Port], portUse{svc.key.Name, p})
				if target := p.TargetPort.String(); target != "0" {
					byTarget[target] = append(byTarget[target], portUse{svc.key.Name, p})
				}
			}
		}
		r.reportPortUses(o, byPort, byTarget)
	}
}

// reportPortUses reports ports that are used with several protocols, even by one Service, and
// target ports to which several Services map different ports. byPort and byTarget are the uses by
// port and by target port of the Services that select o.
func (r *analysisRun) reportPortUses(o *object, byPort map[int32][]portUse, byTarget map[string][]portUse) {
	for _, n := range slices.Sorted(maps.Keys(byPort)) {
		protocols := map[string]bool{}
		for _, u := range byPort[n] {
			protocols[string(u.port.Protocol)] = true
		}
		if len(protocols) > 1 {
			r.report(
				code.DeploymentAssociatedToMultipleServices,
				o,
				"spec.selector",
				"Services %s use port %d with the protocols %s",
				servicesOf(byPort[n]),
				n,
				strings.Join(slices.Sorted(maps.Keys(protocols)), ", "),
			)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(byTarget)) {
		ports := map[int32]bool{}
		for _, u := range byTarget[target] {
			ports[u.port.Port] = true
		}
		names := map[string]bool{}
		for _, u := range byTarget[target] {
			names[u.service] = true
		}
		if len(ports) > 1 && len(names) > 1 {
			r.report(
				code.DeploymentConflictingPorts,
				o,
				"spec.selector",
				"Services %s map different ports to the target port %s",
				servicesOf(byTarget[target]),
				target,
			)
		}
	}
}

// servicesOf returns the names of the Services, sorted and joined by commas.
func servicesOf(list []portUse) string {
	names := map[string]bool{}
	for _, u := range list {
		names[u.service] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// isInMesh reports whether the pods of a Deployment's template are injected: by their label, else
// by their annotation, else by the labels of their namespace.
func (r *analysisRun) isInMesh(o *object, podLabels map[string]string) bool {
	inject, set := podLabels[label.SidecarInject.Name]
	if !set {
		inject, set = decodeAs[appsv1.Deployment](o).Spec.Template.Annotations[annotation.SidecarInject.Name]
	}
	if set {
		return strings.EqualFold(inject, "true")
	}
	return r.isInjected(o.key.Namespace)
}
