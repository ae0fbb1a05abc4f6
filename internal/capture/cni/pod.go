package cni

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"
)

const (
	proxyContainer = "istio-proxy"
	initContainer  = "istio-init"
	// validationContainer is there in initContainer's place, and sees that the plugin did what it should.
	validationContainer = "istio-validation"
)

// notCaptured says why a pod's traffic is not to be captured here, "" if it is.
func notCaptured(pod *corev1.Pod) string {
	proxy := container(pod, proxyContainer)
	switch {
	case pod.Spec.HostNetwork:
		return "it is in the node's own network"
	case container(pod, initContainer) != nil:
		return "its init container " + initContainer + " captures"
	case proxy == nil:
		return "it has no container " + proxyContainer
	case len(proxy.Args) >= 2 && proxy.Args[0] == "proxy" && proxy.Args[1] != "sidecar":
		return "its proxy is no sidecar but of type " + proxy.Args[1]
	case isTrue(variable(proxy, "DISABLE_ENVOY")):
		return "DISABLE_ENVOY is set on its proxy"
	case isFalse(injection(pod)):
		return "injection is off"
	case pod.Annotations[annotation.SidecarStatus.Name] == "":
		return "it was not injected: it has no annotation " + annotation.SidecarStatus.Name
	case pod.Annotations[annotation.SidecarInterceptionMode.Name] == "NONE":
		return "its interception mode is NONE"
	}
	return ""
}

// injection is what the pod says of its injection; the label counts before the annotation.
func injection(pod *corev1.Pod) string {
	if value, ok := pod.Labels[label.SidecarInject.Name]; ok {
		return value
	}
	return pod.Annotations[annotation.SidecarInject.Name]
}

// container finds one by name, among the init containers too, where native sidecars are; nil if there is none.
func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// variable is the value of an environment variable that the pod itself gives, "" if it gives none.
func variable(c *corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func isTrue(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && b
}

func isFalse(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && !b
}
