package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"
)

// InjectionSetting returns the pod's own value of sidecar.istio.io/inject, unchanged, or "" if it
// has none. A label of this name, even an empty one, overrides the annotation of the same name.
func InjectionSetting(pod *metav1.ObjectMeta) string {
	if value, ok := pod.Labels[label.SidecarInject.Name]; ok {
		return value
	}
	return pod.Annotations[annotation.SidecarInject.Name]
}
