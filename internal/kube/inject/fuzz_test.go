package inject

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"istio.io/api/annotation"

	corev1 "k8s.io/api/core/v1"
)

// FuzzAnnotations sets one of Istio's annotations on a pod to any value. The pod is refused, or the
// same containers, init containers and volumes are injected as without it, with the same
// privileges: an annotation may only change the values that its documentation names.
func FuzzAnnotations(f *testing.F) {
	s := settings(f, caseSettings{})
	var names []string
	for _, a := range annotation.AllResourceAnnotations() {
		if strings.Contains(a.Name, "sidecar.istio.io/") || strings.HasPrefix(a.Name, "proxy.istio.io/config") ||
			strings.HasPrefix(
				a.Name,
				"prometheus.istio.io/",
			) || a.Name == annotation.IoIstioRerouteVirtualInterfaces.Name {
			names = append(names, a.Name)
		}
	}
	names = append(
		names,
		"kubectl.kubernetes.io/default-container",
		"k8s.v1.cni.cncf.io/networks",
		"prometheus.io/port",
		"prometheus.io/path",
	)
	for i := range names {
		for _, value := range []string{
			"x\n  - name: evil", `x", evil: "y`, "{a: b}", "\u2028",
		} {
			f.Add(uint8(i), value)
		}
	}
	usual := shape(f, s, readPod(f, []byte(plainPod)))
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		name := names[int(which)%len(names)]
		if strings.ToValidUTF8(value, "") != value {
			return // JSON has none
		}
		pod := readPod(t, []byte(plainPod))
		pod.Annotations = map[string]string{name: value}
		got := shape(t, s, pod)
		if got == "" {
			return
		}
		switch name { // these are documented to change it
		case annotation.SidecarUserVolume.Name,
			annotation.SidecarUserVolumeMount.Name,
			annotation.SidecarBootstrapOverride.Name,
			annotation.SidecarInterceptionMode.Name,
			annotation.SidecarNativeSidecar.Name,
			annotation.SidecarStatus.Name,
			annotation.ProxyConfig.Name:
			return
		}
		if got != usual {
			t.Errorf("%s: %q: pod is\n%s\nwithout the annotation\n%s", name, value, got, usual)
		}
	})
}

// shape describes the containers and volumes of an injected pod and their privileges. It is empty
// if the pod was refused.
func shape(t testing.TB, s *Settings, pod *corev1.Pod) string {
	t.Helper()
	r, err := s.Inject(Request{Pod: pod, Namespace: "shop"})
	if err != nil {
		return ""
	}
	type container struct {
		Name, Command string
		Env, Mounts   []string
		Security      *corev1.SecurityContext
	}
	var list []container
	for _, c := range slices.Concat(r.Pod.Spec.InitContainers, r.Pod.Spec.Containers) {
		one := container{Name: c.Name, Command: strings.Join(c.Command, " "), Security: c.SecurityContext}
		for _, e := range c.Env {
			if e.Name != scrapeVariable {
				one.Env = append(one.Env, e.Name)
			}
		}
		for _, m := range c.VolumeMounts {
			one.Mounts = append(one.Mounts, m.Name+m.MountPath)
		}
		list = append(list, one)
	}
	rest := r.Pod.Spec.DeepCopy()
	rest.Containers, rest.InitContainers = nil, nil
	text, err := json.MarshalIndent([]any{list, rest}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
