package kubelet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fieldValue returns the value of a field path of the downward API.
func (p *pod) fieldValue(object *corev1.Pod, path string) (string, error) {
	if base, key, ok := strings.Cut(strings.TrimSuffix(path, "']"), "['"); ok {
		switch base {
		case "metadata.labels":
			return object.Labels[key], nil
		case "metadata.annotations":
			return object.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return object.Name, nil
	case "metadata.namespace":
		return object.Namespace, nil
	case "metadata.uid":
		return string(object.UID), nil
	case "metadata.labels":
		return formatMap(object.Labels), nil
	case "metadata.annotations":
		return formatMap(object.Annotations), nil
	case "spec.nodeName":
		return p.k.Node, nil
	case "spec.serviceAccountName":
		return accountOf(object), nil
	case "status.podIP":
		return p.primaryIP().String(), nil
	case "status.podIPs":
		return joinTexts(p.network.addresses), nil
	case "status.hostIP":
		return p.k.NodeIPs[0].String(), nil
	case "status.hostIPs":
		return joinTexts(p.k.NodeIPs), nil
	}
	return "", fmt.Errorf("the field path %q is unknown", path)
}

// accountOf returns a Pod's service account. An API server whose admission does not fill it in
// leaves it empty.
func accountOf(object *corev1.Pod) string { return cmp.Or(object.Spec.ServiceAccountName, "default") }

func joinTexts[T fmt.Stringer](list []T) string {
	var texts []string
	for _, one := range list {
		texts = append(texts, one.String())
	}
	return strings.Join(texts, ",")
}

func formatMap(m map[string]string) string {
	lines := make([]string, 0, len(m))
	for k, v := range m {
		lines = append(lines, fmt.Sprintf("%s=%q", k, v))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// resourceField returns the value of a resourceFieldRef, in units of its divisor, rounded up.
// Without a limit it is the node's capacity.
func resourceField(object *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" {
		all := slices.Concat(object.Spec.InitContainers, object.Spec.Containers)
		i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == ref.ContainerName })
		if i < 0 {
			return "", fmt.Errorf("no container %q", ref.ContainerName)
		}
		c = &all[i]
	}
	if c == nil {
		return "", fmt.Errorf("the resource %q is of no container", ref.Resource)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	switch kind {
	case "requests":
		quantity = c.Resources.Requests[corev1.ResourceName(name)]
	case "limits":
		var limited bool
		if quantity, limited = c.Resources.Limits[corev1.ResourceName(name)]; !limited {
			quantity = nodeCapacity()[corev1.ResourceName(name)]
		}
	default:
		return "", fmt.Errorf("the resource %q is unknown", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, by := quantity.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		value, by = quantity.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt((value+by-1)/by, 10), nil
}
