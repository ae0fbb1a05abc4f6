package inject

import (
	"fmt"
	"slices"

	"istio.io/api/annotation"
	"istio.io/api/label"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// systemNamespaces are where Kubernetes runs what the mesh itself needs.
func systemNamespace(name string) bool {
	return slices.Contains([]string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}, name)
}

// Decision says whether a pod is to be injected.
type Decision struct {
	Inject bool
	// Reason is for people.
	Reason string
	// Warning is what the pod says and is not understood; empty: nothing.
	Warning string
}

// Decide says whether a pod in a namespace is to be injected. Which namespaces and pods are asked about at all is up to the
// selectors of the webhook configuration.
func (c *Config) Decide(pod *corev1.Pod, namespace string) Decision {
	switch {
	case pod.Spec.HostNetwork:
		return Decision{Reason: "it is in the network of its node, whose traffic must not be captured"}
	case systemNamespace(namespace):
		return Decision{Reason: "namespace " + namespace + " is the system's"}
	}
	said, by := pod.Annotations[annotation.SidecarInject.Name], "annotation"
	if l, ok := pod.Labels[label.SidecarInject.Name]; ok {
		said, by = l, "label"
	}
	d := Decision{}
	switch said {
	case "true":
		return Decision{Inject: true, Reason: "its " + by + " " + label.SidecarInject.Name + " says so"}
	case "false":
		return Decision{Reason: "its " + by + " " + label.SidecarInject.Name + " forbids it"}
	case "":
	default:
		d.Warning = fmt.Sprintf("%s %s is %q, which is neither true nor false: it does not count", by, label.SidecarInject.Name, said)
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
