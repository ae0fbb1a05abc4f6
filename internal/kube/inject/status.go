package inject

import (
	"cmp"
	"encoding/json"
	"slices"

	"istio.io/api/annotation"

	corev1 "k8s.io/api/core/v1"
)

// status is the annotation sidecar.istio.io/status: what injection put into a pod, by name. It says that the pod was injected.
type status struct {
	InitContainers   []string `json:"initContainers"`
	Containers       []string `json:"containers"`
	Volumes          []string `json:"volumes"`
	ImagePullSecrets []string `json:"imagePullSecrets"`
	Revision         string   `json:"revision"`
}

// statusOf names what is in a part of a pod.
func statusOf(spec *corev1.PodSpec, revision string) status {
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

// readStatus gives what an earlier injection put into a pod, nil if there was none. Of an annotation that is not one of ours
// only that it is there is known.
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

// stripped gives a pod without what an earlier injection put there, as templates are to see it, and with the user's own
// settings of injected containers, which that injection had moved to an annotation.
func stripped(pod *corev1.Pod, before *status, own *containers, statusPort string) *corev1.Pod {
	p := pod.DeepCopy()
	if before != nil {
		p.Spec.Containers = without(p.Spec.Containers, before.Containers)
		p.Spec.InitContainers = without(p.Spec.InitContainers, before.InitContainers)
		if port, ok := prometheusPort(p.Annotations); ok && port == statusPort {
			clearPrometheus(p.Annotations)
		}
		delete(p.Annotations, annotation.SidecarStatus.Name)
	}
	for _, c := range own.Containers {
		if find(p.Spec.Containers, c.Name) == nil {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	for _, c := range own.InitContainers {
		if find(p.Spec.InitContainers, c.Name) == nil {
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	return p
}

func without(list []corev1.Container, names []string) []corev1.Container {
	return slices.DeleteFunc(list, func(c corev1.Container) bool { return slices.Contains(names, c.Name) })
}

// find gives the container of a name, nil if there is none.
func find(list []corev1.Container, name string) *corev1.Container {
	if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// findAny looks among the containers, then among the init containers.
func findAny(pod *corev1.Pod, name string) *corev1.Container {
	if c := find(pod.Spec.Containers, name); c != nil {
		return c
	}
	return find(pod.Spec.InitContainers, name)
}

func (s status) text() (string, error) {
	b, err := json.Marshal(s)
	return string(b), err
}
