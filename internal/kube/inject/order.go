package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The container names that injection handles specially.
const (
	proxyContainer      = "istio-proxy"
	initContainer       = "istio-init"
	validationContainer = "istio-validation"
	coreDumpContainer   = "enable-core-dump"
)

// orderContainers moves the injected containers to their positions. The proxy is the last
// container, so that kubectl exec selects the application; or the first, if hold is set, because
// containers start in order. A native proxy comes before the user's init containers, after
// istio-init and istio-validation. Otherwise istio-validation is the first init container, and
// istio-init and enable-core-dump are the last, because captured init containers could not connect
// before the proxy runs.
func orderContainers(pod *corev1.Pod, hold bool) {
	spec := &pod.Spec
	if hold {
		spec.Containers = moveToFront(spec.Containers, proxyContainer)
	} else {
		spec.Containers = moveToBack(spec.Containers, proxyContainer)
	}
	if findContainer(spec.InitContainers, proxyContainer) != nil {
		spec.InitContainers = moveToFront(
			spec.InitContainers,
			initContainer,
			validationContainer,
			proxyContainer,
			coreDumpContainer,
		)
		return
	}
	spec.InitContainers = moveToFront(spec.InitContainers, validationContainer)
	spec.InitContainers = moveToBack(spec.InitContainers, initContainer, coreDumpContainer)
}

// moveToFront returns the list with the named containers first, in the order of names.
func moveToFront(list []corev1.Container, names ...string) []corev1.Container {
	named, rest := partitionByName(list, names)
	return append(named, rest...)
}

// moveToBack returns the list with the named containers last, in the order of names.
func moveToBack(list []corev1.Container, names ...string) []corev1.Container {
	named, rest := partitionByName(list, names)
	return append(rest, named...)
}

// partitionByName returns the containers in names, in that order, and all others in theirs. Names
// without a container are skipped. Of several containers with the same name in names, only the
// first is returned.
func partitionByName(list []corev1.Container, names []string) (named, rest []corev1.Container) {
	for _, n := range names {
		if c := findContainer(list, n); c != nil {
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
