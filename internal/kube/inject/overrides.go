package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"istio.io/api/annotation"

	corev1 "k8s.io/api/core/v1"
)

// autoImage is the image of a user's own istio-proxy container that selects the template's image,
// because Kubernetes requires a value.
const autoImage = "auto"

// containerOverrides is the annotation proxy.istio.io/overrides: the user's own settings of
// injected containers, stored so that a second injection can apply them again.
type containerOverrides struct {
	Containers     []corev1.Container `json:"containers,omitempty"`
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
}

// readOverrides returns the user's own settings of injected containers that an earlier injection
// stored in the annotation proxy.istio.io/overrides, empty without it. It returns an error if the
// annotation is invalid.
func readOverrides(pod *corev1.Pod) (*containerOverrides, error) {
	own := &containerOverrides{}
	if text, ok := pod.Annotations[annotation.ProxyOverrides.Name]; ok {
		if err := json.Unmarshal([]byte(text), own); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", annotation.ProxyOverrides.Name, err)
		}
	}
	return own, nil
}

// applyOverrides returns merged with the user's own settings of each injected container merged over
// the templates'. These are the stored ones (own), or else the container in original, unless an
// earlier injection (before) added it, because it then contains injected settings. An init
// container's settings may also be in the containers of original. In the first injection (before is
// nil), it stores the applied settings, if there are any, in an annotation.
func applyOverrides(
	merged, original, injected *corev1.Pod,
	before *status,
	own *containerOverrides,
) (*corev1.Pod, error) {
	earlier := before
	if earlier == nil {
		earlier = &status{}
	}
	applied := containerOverrides{}
	var err error
	for _, c := range injected.Spec.Containers {
		user := findContainer(own.Containers, c.Name)
		if user == nil && !slices.Contains(earlier.Containers, c.Name) {
			user = findContainer(original.Spec.Containers, c.Name)
		}
		if merged, err = applyOverride(merged, user, "containers", &applied.Containers); err != nil {
			return nil, err
		}
	}
	for _, c := range injected.Spec.InitContainers {
		user := findContainer(own.InitContainers, c.Name)
		if user == nil && !slices.Contains(earlier.InitContainers, c.Name) {
			user = findInPod(original, c.Name)
		}
		if merged, err = applyOverride(merged, user, "initContainers", &applied.InitContainers); err != nil {
			return nil, err
		}
	}
	if before == nil && len(applied.Containers)+len(applied.InitContainers) > 0 {
		text, err := json.Marshal(applied)
		if err != nil {
			return nil, err
		}
		setAnnotation(merged, annotation.ProxyOverrides.Name, string(text))
	}
	return merged, nil
}

// applyOverride returns the pod with user merged over its container in a list, and appends user to
// applied. The image "auto" is left out of both, so that the template's stays. It returns the pod
// itself if user is nil.
func applyOverride(
	pod *corev1.Pod,
	user *corev1.Container,
	list string,
	applied *[]corev1.Container,
) (*corev1.Pod, error) {
	if user == nil {
		return pod, nil
	}
	override := *user.DeepCopy()
	if override.Image == autoImage {
		override.Image = ""
	}
	*applied = append(*applied, override)
	return mergeContainer(pod, list, override)
}

// userContainer returns the user's own settings of an injected container, or nil if there are none.
// In the first injection these are in original, and after an earlier one (before is not nil) in
// own.
func userContainer(original *corev1.Pod, before *status, own *containerOverrides, name string) *corev1.Container {
	if before != nil {
		return firstNonNil(findContainer(own.Containers, name), findContainer(own.InitContainers, name))
	}
	return findInPod(original, name)
}

// firstNonNil returns a, or b if a is nil.
func firstNonNil(a, b *corev1.Container) *corev1.Container {
	if a != nil {
		return a
	}
	return b
}

// setAnnotation sets an annotation of the pod.
func setAnnotation(pod *corev1.Pod, name, value string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[name] = value
}

// matchProxyUser adapts the traffic capture to the user's own user and group ID of the proxy, whose
// traffic is exempt. It sets the argument -u of istio-init, or else of istio-validation, unless the
// user ID is root, which iptables does not exempt. Without istio-init and TPROXY, istio-validation
// also runs with both IDs; with TPROXY, a proxy with an own user ID runs as root. It does nothing
// without own IDs or without both containers.
func matchProxyUser(pod *corev1.Pod, user *corev1.Container, tproxy bool) {
	if user == nil || user.SecurityContext == nil ||
		user.SecurityContext.RunAsUser == nil && user.SecurityContext.RunAsGroup == nil {
		return
	}
	setup := firstNonNil(
		findContainer(pod.Spec.InitContainers, initContainer),
		findContainer(pod.Spec.InitContainers, validationContainer),
	)
	if setup == nil {
		return
	}
	uid, gid := user.SecurityContext.RunAsUser, user.SecurityContext.RunAsGroup
	if proxy := findInPod(pod, proxyContainer); tproxy && uid != nil && proxy != nil && proxy.SecurityContext != nil {
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
