package cni

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

const (
	proxyContainer = "istio-proxy"
	initContainer  = "istio-init"
	// validationContainer replaces initContainer with the plugin, and verifies the capture.
	validationContainer = "istio-validation"
)

// skipReason returns the first reason why the plugin does not capture a pod's traffic, "" if it
// does. Reasons are the host network, capture by an init container, another proxy than an injected
// sidecar, and disabled injection, capture or Envoy.
func skipReason(pod *corev1.Pod) string {
	proxy := findContainer(pod, proxyContainer)
	switch {
	case pod.Spec.HostNetwork:
		return "it uses the host network"
	case findContainer(pod, initContainer) != nil:
		return "its init container " + initContainer + " captures the traffic"
	case proxy == nil:
		return "it has no container " + proxyContainer
	case len(proxy.Args) >= 2 && proxy.Args[0] == "proxy" && proxy.Args[1] != "sidecar":
		return "its proxy is not a sidecar but of type " + proxy.Args[1]
	case isTrue(envValue(proxy, "DISABLE_ENVOY")):
		return "DISABLE_ENVOY is set on its proxy"
	case isFalse(api.InjectionSetting(&pod.ObjectMeta)):
		return "injection is disabled"
	case pod.Annotations[annotation.SidecarStatus.Name] == "":
		return "it was not injected: it has no annotation " + annotation.SidecarStatus.Name
	case pod.Annotations[annotation.SidecarInterceptionMode.Name] == "NONE":
		return "its interception mode is NONE"
	}
	return ""
}

// findContainer returns a pointer to the pod's container or init container with that name, or nil
// if there is none. Native sidecars are init containers.
func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// envValue returns the literal value of a container's environment variable. It returns "" if there
// is none or its value comes from elsewhere.
func envValue(c *corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// isTrue reports whether s is a boolean and true. An invalid one is not.
func isTrue(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && b
}

// isFalse reports whether s is a boolean and false. An invalid or empty one is not.
func isFalse(s string) bool {
	b, err := strconv.ParseBool(s)
	return err == nil && !b
}
