package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The containers that injection knows by name.
const (
	proxyContainer      = "istio-proxy"
	initContainer       = "istio-init"
	validationContainer = "istio-validation"
	coreDumpContainer   = "enable-core-dump"
)

// order puts the injected containers in their places. The proxy is the last container, so that kubectl exec goes to the
// application, or the first one if the application is held until it has started, for containers start in order. As an init container
// it comes before the user's, so that they are in the mesh, behind what captures its traffic. Without that the capture is
// set up last, for nothing could answer the init containers before the proxy runs.
func order(pod *corev1.Pod, hold bool) {
	spec := &pod.Spec
	if hold {
		spec.Containers = toFront(spec.Containers, proxyContainer)
	} else {
		spec.Containers = toBack(spec.Containers, proxyContainer)
	}
	if find(spec.InitContainers, proxyContainer) != nil {
		spec.InitContainers = toFront(spec.InitContainers, initContainer, validationContainer, proxyContainer, coreDumpContainer)
		return
	}
	spec.InitContainers = toFront(spec.InitContainers, validationContainer)
	spec.InitContainers = toBack(spec.InitContainers, initContainer, coreDumpContainer)
}

// toFront gives the list with the containers of these names first, in this order, of those that there are.
func toFront(list []corev1.Container, names ...string) []corev1.Container {
	named, rest := part(list, names)
	return append(named, rest...)
}

func toBack(list []corev1.Container, names ...string) []corev1.Container {
	named, rest := part(list, names)
	return append(rest, named...)
}

func part(list []corev1.Container, names []string) (named, rest []corev1.Container) {
	for _, n := range names {
		if c := find(list, n); c != nil {
			named = append(named, *c)
		}
	}
	for _, c := range list {
		if !slices.Contains(names, c.Name) {
			rest = append(rest, c)
		}
	}
	return named, rest
}
