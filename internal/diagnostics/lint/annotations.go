package lint

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"istio.io/api/annotation"
	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/base/portrange"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// deployment is the kind of Deployments, which the control plane does not read.
const deployment api.Kind = "Deployment"

// ingressClass is an annotation of Kubernetes that Istio documents.
const ingressClass = "kubernetes.io/ingress.class"

// checkAnnotations reports annotations of Istio at Namespaces, Services, Pods and Deployments that
// are unknown, deprecated, in the phase alpha, on an object of a wrong kind, or invalid. The
// annotation that suppresses findings is skipped.
func (r *analysisRun) checkAnnotations() {
	for _, o := range r.ofKind(api.Namespace, api.Service, api.Pod, deployment) {
		for name, value := range o.meta.Annotations {
			domain, _, _ := strings.Cut(name, "/")
			if name != suppressAnnotation && (strings.HasSuffix(domain, "istio.io") || name == ingressClass) {
				r.checkAnnotation(o, name, value)
			}
		}
	}
}

// checkAnnotation reports an annotation of Istio that is unknown, alpha, deprecated, without effect
// on the object's kind, or invalid. It skips annotations that programs set. Alpha ones that
// injection sets at a pod without istio-init, and the deprecated one for injection beside its
// label, are accepted. Each mistake is one Problem; an unknown annotation is not checked further.
func (r *analysisRun) checkAnnotation(o *object, name, value string) {
	switch name {
	case annotation.SidecarStatus.Name, annotation.GatewayControllerVersion.Name, annotation.IoIstioRev.Name:
		return // programs set these
	case mesh.ConnectStrategyAnnotation:
		return // not in Istio's list
	}
	field := "metadata.annotations[" + name + "]"
	all := annotation.AllResourceAnnotations()
	i := slices.IndexFunc(all, func(a *annotation.Instance) bool { return a.Name == name })
	if i < 0 {
		r.report(code.UnknownAnnotation, o, field, "is not an annotation of Istio")
		return
	}
	def := all[i]
	if def.FeatureStatus == annotation.Alpha && !(setByInjection(name) && isPodWithoutInit(o)) {
		r.report(code.AlphaAnnotation, o, field, "is of a feature in the phase alpha")
	}
	if _, hasLabel := o.meta.Labels[label.SidecarInject.Name]; def.Deprecated &&
		!(name == annotation.SidecarInject.Name && hasLabel) {
		advice := ""
		if name == annotation.SidecarInject.Name {
			advice = "; use the label " + label.SidecarInject.Name
		}
		r.report(code.DeprecatedAnnotation, o, field, "is deprecated%s", advice)
	}
	kinds := kindsOf(def)
	switch {
	case slices.Contains(def.Resources, annotation.Any):
	case !slices.Contains(kinds, o.key.Kind.Name()):
		r.report(code.MisplacedAnnotation, o, field, "has an effect only on %s", strings.Join(kinds, ", "))
	default:
		if reason := annotationFault(name, value); reason != "" {
			r.report(code.InvalidAnnotation, o, field, "%q %s", value, reason)
		}
	}
}

// kindsOf returns the kinds of objects that an annotation has an effect on.
func kindsOf(def *annotation.Instance) []string {
	var list []string
	for _, k := range def.Resources {
		list = append(list, k.String())
	}
	return list
}

// setByInjection reports whether injection adds the annotation to pods whose traffic the CNI plugin
// captures.
func setByInjection(name string) bool {
	return slices.Contains([]string{
		annotation.SidecarInterceptionMode.Name, annotation.SidecarTrafficIncludeInboundPorts.Name,
		annotation.SidecarTrafficExcludeInboundPorts.Name, annotation.SidecarTrafficIncludeOutboundIPRanges.Name,
	}, name)
}

// isPodWithoutInit reports whether an object is a pod without the init container istio-init. It
// returns false for other kinds.
func isPodWithoutInit(o *object) bool {
	if o.key.Kind != api.Pod {
		return false
	}
	for _, c := range podOf(o).Spec.InitContainers {
		if c.Name == "istio-init" {
			return false
		}
	}
	return true
}

// annotationFault returns the reason why the value of an annotation is invalid. It returns "" for
// valid values, and for annotations whose values are not checked. Lists of ranges and ports are
// separated by commas. They may have empty items, or be "*" as a whole; numbers are from 0 to
// 65535. Only the ports of includeOutboundPorts may be ranges, and are not "*".
func annotationFault(name, value string) string {
	switch name {
	case annotation.SidecarInterceptionMode.Name:
		if !slices.Contains([]string{"REDIRECT", "TPROXY", "NONE"}, value) {
			return "is not an interception mode: want REDIRECT, TPROXY or NONE"
		}
	case annotation.SidecarTrafficIncludeOutboundIPRanges.Name, annotation.SidecarTrafficExcludeOutboundIPRanges.Name:
		for item := range strings.SplitSeq(value, ",") {
			if _, err := netip.ParsePrefix(strings.TrimSpace(item)); err != nil && value != "*" && item != "" {
				return "is not a list of ranges such as 10.0.0.0/8"
			}
		}
	case annotation.SidecarTrafficIncludeInboundPorts.Name, annotation.SidecarTrafficExcludeInboundPorts.Name,
		annotation.SidecarTrafficExcludeOutboundPorts.Name:
		for item := range strings.SplitSeq(value, ",") {
			if _, err := strconv.ParseUint(strings.TrimSpace(item), 10, 16); err != nil && value != "*" && item != "" {
				return "is not a list of ports"
			}
		}
	case annotation.SidecarTrafficIncludeOutboundPorts.Name:
		for item := range strings.SplitSeq(value, ",") {
			if _, err := portrange.Parse(strings.TrimSpace(item)); err != nil && item != "" {
				return "is not a list of ports or ranges such as 8000:8010"
			}
		}
	case annotation.SidecarStatusPort.Name, annotation.SidecarStatusReadinessInitialDelaySeconds.Name,
		annotation.SidecarStatusReadinessPeriodSeconds.Name, annotation.SidecarStatusReadinessFailureThreshold.Name:
		if _, err := strconv.ParseUint(value, 10, 16); err != nil {
			return "is not a whole number"
		}
	case annotation.SidecarRewriteAppHTTPProbers.Name, annotation.SidecarInject.Name:
		if _, err := strconv.ParseBool(value); err != nil && value != "" {
			return "is neither true nor false"
		}
	}
	return ""
}
