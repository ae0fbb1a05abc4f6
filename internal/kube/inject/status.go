package inject

import (
	"cmp"
	"encoding/json"
	"slices"

	"istio.io/api/annotation"

	corev1 "k8s.io/api/core/v1"
)

// status is the annotation sidecar.istio.io/status, which marks an injected pod and names what
// injection added to it.
type status struct {
	InitContainers   []string `json:"initContainers"`
	Containers       []string `json:"containers"`
	Volumes          []string `json:"volumes"`
	ImagePullSecrets []string `json:"imagePullSecrets"`
	Revision         string   `json:"revision"`
}

// newStatus returns the status for all parts of spec, which has only what the templates added. An
// empty revision is "default".
func newStatus(spec *corev1.PodSpec, revision string) status {
	s := status{Revision: cmp.Or(revision, "default")}
	for _, c := range spec.InitContainers {
		s.InitContainers = append(s.InitContainers, c.Name)
	}
	for _, c := range spec.Containers {
		s.Containers = append(s.Containers, c.Name)
	}
	for _, v := range spec.Volumes {
		s.Volumes = append(s.Volumes, v.Name)
	}
	for _, p := range spec.ImagePullSecrets {
		s.ImagePullSecrets = append(s.ImagePullSecrets, p.Name)
	}
	return s
}

// readStatus returns the status of an earlier injection, or nil without the annotation. If the
// annotation is invalid, the status is empty, not nil.
func readStatus(pod *corev1.Pod) *status {
	text, ok := pod.Annotations[annotation.SidecarStatus.Name]
	if !ok {
		return nil
	}
	s := &status{}
	if json.Unmarshal([]byte(text), s) != nil {
		return &status{}
	}
	return s
}

// withoutInjected returns a copy of the pod as templates should see it. If before is not nil,
// it removes that injection's containers and status annotation, and Prometheus annotations with
// the agent's port; volumes and rewritten probes stay. Then, also if before is nil, it appends
// the user's own settings (own, which must not be nil) of injected containers and init
// containers where none of that name is left.
func withoutInjected(pod *corev1.Pod, before *status, own *containerOverrides, statusPort string) *corev1.Pod {
	p := pod.DeepCopy()
	if before != nil {
		p.Spec.Containers = removeNamed(p.Spec.Containers, before.Containers)
		p.Spec.InitContainers = removeNamed(p.Spec.InitContainers, before.InitContainers)
		if port, ok := prometheusPort(p.Annotations); ok && port == statusPort {
			removePrometheusAnnotations(p.Annotations)
		}
		delete(p.Annotations, annotation.SidecarStatus.Name)
	}
	for _, c := range own.Containers {
		if findContainer(p.Spec.Containers, c.Name) == nil {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	for _, c := range own.InitContainers {
		if findContainer(p.Spec.InitContainers, c.Name) == nil {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}

// removeNamed returns list without the containers with these names. It changes list in place.
func removeNamed(list []corev1.Container, names []string) []corev1.Container {
	return slices.DeleteFunc(list, func(c corev1.Container) bool { return slices.Contains(names, c.Name) })
}

// findContainer returns the first container with this name, or nil. The result points into list.
func findContainer(list []corev1.Container, name string) *corev1.Container {
	if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// findInPod returns the container or init container with this name, or nil. Containers take
// precedence. The result points into the pod.
func findInPod(pod *corev1.Pod, name string) *corev1.Container {
	if c := findContainer(pod.Spec.Containers, name); c != nil {
		return c
	}
	return findContainer(pod.Spec.InitContainers, name)
}

// encodeJSON returns the status as JSON, the value of its annotation.
func (s status) encodeJSON() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}
