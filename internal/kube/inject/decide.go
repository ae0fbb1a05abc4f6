package inject

import (
	"fmt"
	"slices"

	"istio.io/api/annotation"
	"istio.io/api/label"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// isSystemNamespace reports whether a namespace is kube-system, kube-public, kube-node-lease or
// local-path-storage, which have components of Kubernetes and of its local-path provisioner.
func isSystemNamespace(name string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}, name)
}

// Decision is the result of Decide.
type Decision struct {
	Inject bool
	// Reason is a text for users.
	Reason string
	// Warning names an invalid label or annotation of the pod, or is "".
	Warning string
}

// Decide reports whether a pod in a namespace is injected, and why. Pods in the host network or in
// system namespaces are never injected. The pod's label, or only without it the annotation, decides
// if it is true or false; another non-empty value becomes a Warning. Otherwise neverInjectSelector,
// alwaysInjectSelector and the policy decide, in this order; the webhook configuration checks
// namespace labels.
func (c *Config) Decide(pod *corev1.Pod, namespace string) Decision {
	switch {
	case pod.Spec.HostNetwork:
		return Decision{Reason: "it uses the host network, whose traffic must not be captured"}
	case isSystemNamespace(namespace):
		return Decision{Reason: namespace + " is a system namespace"}
	}
	value, by := pod.Annotations[annotation.SidecarInject.Name], "annotation"
	if l, ok := pod.Labels[label.SidecarInject.Name]; ok {
		value, by = l, "label"
	}
	d := Decision{}
	switch value {
	case "true":
		return Decision{Inject: true, Reason: "its " + by + " " + label.SidecarInject.Name + " is true"}
	case "false":
		return Decision{Reason: "its " + by + " " + label.SidecarInject.Name + " is false"}
	case "":
	default:
		d.Warning = fmt.Sprintf("%s %s: %q is neither true nor false and is ignored", by,
			label.SidecarInject.Name, value)
	}
	selects := func(s labels.Selector) bool { return s.Matches(labels.Set(pod.Labels)) }
	switch {
	case slices.ContainsFunc(c.Never, selects):
		d.Reason = "neverInjectSelector selects it"
	case slices.ContainsFunc(c.Always, selects):
		d.Inject, d.Reason = true, "alwaysInjectSelector selects it"
	default:
		d.Inject, d.Reason = c.Policy == Enabled, "the policy is "+string(c.Policy)
	}
	return d
}
