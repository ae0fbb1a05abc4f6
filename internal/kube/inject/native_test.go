package inject

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"
)

// TestNativeSidecarAnnotation: the proxy is a native sidecar unless the annotation is "false". With
// an empty value the nodes decide. The user's own container of the proxy follows. Values that look
// false but count as true cause a warning.
func TestNativeSidecarAnnotation(t *testing.T) {
	s := settings(t, caseSettings{})
	for _, c := range []struct {
		value, warning         string
		onOldNodes, onNewNodes bool
	}{
		{"true", "", true, true},
		{"false", "", false, false},
		{"True", "", true, true},
		{"0", `"0" is not false and counts as true`, true, true},
		{"False", `"False" is not false and counts as true`, true, true},
		{"abc", `"abc" is not false and counts as true`, true, true},
		{"", `"" is neither true nor false and is ignored`, false, true},
	} {
		pod := readPod(t, []byte(plainPod))
		pod.Annotations = map[string]string{annotation.SidecarNativeSidecar.Name: c.value}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: proxyContainer, Image: autoImage})
		for _, nodes := range []bool{false, true} {
			r, err := s.Inject(Request{Pod: pod, Namespace: "shop", NativeSidecars: nodes})
			if err != nil {
				t.Fatal(err)
			}
			want := c.onOldNodes
			if nodes {
				want = c.onNewNodes
			}
			isProxy := func(c corev1.Container) bool { return c.Name == proxyContainer }
			initial, usual := slices.ContainsFunc(r.Pod.Spec.InitContainers, isProxy), slices.ContainsFunc(r.Pod.Spec.Containers, isProxy)
			if initial != want || usual == want {
				t.Errorf("%q on nodes %v: init container %v, container %v; want native %v", c.value, nodes, initial, usual, want)
			}
			if got := strings.Join(r.Warnings, "\n"); !strings.HasSuffix(got, c.warning) || (got == "") != (c.warning == "") {
				t.Errorf("%q: warnings %q, want %q", c.value, got, c.warning)
			}
		}
	}
}
