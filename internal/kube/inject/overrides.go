package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"istio.io/api/annotation"

	corev1 "k8s.io/api/core/v1"
)

// autoImage is what a user's own istio-proxy container has as its image, which Kubernetes asks for, if the template's is meant.
const autoImage = "auto"

// containers is the annotation proxy.istio.io/overrides: what the user had set of containers that are injected, kept so that a
// second injection can lay it over the template again.
type containers struct {
	Containers     []corev1.Container `json:"containers,omitempty"`
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
}

func readOverrides(pod *corev1.Pod) (*containers, error) {
	own := &containers{}
	if text, ok := pod.Annotations[annotation.ProxyOverrides.Name]; ok {
		if err := json.Unmarshal([]byte(text), own); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", annotation.ProxyOverrides.Name, err)
		}
	}
	return own, nil
}

// reapply lays the user's own settings of injected containers over what the template made of them. Of a pod that was injected
// before they are in the annotation: what its containers have now is not the user's alone.
func reapply(merged, original, injected *corev1.Pod, before *status, own *containers) (*corev1.Pod, error) {
	earlier := before
	if earlier == nil {
		earlier = &status{}
	}
	applied := containers{}
	var err error
	for _, c := range injected.Spec.Containers {
		user := find(own.Containers, c.Name)
		if user == nil && !slices.Contains(earlier.Containers, c.Name) {
			user = find(original.Spec.Containers, c.Name)
		}
		if merged, err = layContainer(merged, user, "containers", &applied.Containers); err != nil {
			return nil, err
		}
	}
	for _, c := range injected.Spec.InitContainers {
		user := find(own.InitContainers, c.Name)
		if user == nil && !slices.Contains(earlier.InitContainers, c.Name) {
			user = findAny(original, c.Name)
		}
		if merged, err = layContainer(merged, user, "initContainers", &applied.InitContainers); err != nil {
			return nil, err
		}
	}
	if before == nil && len(applied.Containers)+len(applied.InitContainers) > 0 {
		text, err := json.Marshal(applied)
		if err != nil {
			return nil, err
		}
		annotate(merged, annotation.ProxyOverrides.Name, string(text))
	}
	return merged, nil
}

// layContainer lays one container over the pod's list of that name, and notes it.
func layContainer(pod *corev1.Pod, user *corev1.Container, list string, applied *[]corev1.Container) (*corev1.Pod, error) {
	if user == nil {
		return pod, nil
	}
	mine := *user.DeepCopy()
	if mine.Image == autoImage {
		mine.Image = ""
	}
	*applied = append(*applied, mine)
	return overlayContainer(pod, list, mine)
}

// userContainer is the user's own of an injected container's name, as far as that is known; nil if there is none.
func userContainer(original *corev1.Pod, before *status, own *containers, name string) *corev1.Container {
	if before != nil {
		return firstOf(find(own.Containers, name), find(own.InitContainers, name))
	}
	return findAny(original, name)
}

func firstOf(a, b *corev1.Container) *corev1.Container {
	if a != nil {
		return a
	}
	return b
}

func annotate(pod *corev1.Pod, name, value string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[name] = value
}

// followUser has the container that sets up the capture follow a user's own user or group of the proxy: the proxy's traffic is
// known by its user. With TPROXY the proxy must stay root.
func followUser(pod *corev1.Pod, user *corev1.Container, tproxy bool) {
	if user == nil || user.SecurityContext == nil || user.SecurityContext.RunAsUser == nil && user.SecurityContext.RunAsGroup == nil {
		return
	}
	setup := firstOf(find(pod.Spec.InitContainers, initContainer), find(pod.Spec.InitContainers, validationContainer))
	if setup == nil {
		return
	}
	uid, gid := user.SecurityContext.RunAsUser, user.SecurityContext.RunAsGroup
	if proxy := findAny(pod, proxyContainer); tproxy && uid != nil && proxy != nil && proxy.SecurityContext != nil {
		proxy.SecurityContext.RunAsUser = new(int64)
	}
	if !tproxy && setup.Name == validationContainer {
		if setup.SecurityContext == nil {
			setup.SecurityContext = &corev1.SecurityContext{}
		}
		if uid != nil {
			setup.SecurityContext.RunAsUser = uid
		}
		if gid != nil {
			setup.SecurityContext.RunAsGroup = gid
		}
	}
	if uid == nil || *uid == 0 { // iptables does not exempt root
		return
	}
	if i := slices.Index(setup.Args, "-u"); i >= 0 && i+1 < len(setup.Args) {
		setup.Args[i+1] = strconv.FormatInt(*uid, 10)
	}
}
