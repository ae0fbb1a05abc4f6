package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"
)

// InjectionSetting returns a pod's own setting for injection, "true" or "false", or "" if it has
// none. The label overrides the annotation.
func InjectionSetting(pod *metav1.ObjectMeta) string {
	if value, ok := pod.Labels[label.SidecarInject.Name]; ok {
		return value
	}
	return pod.Annotations[annotation.SidecarInject.Name]
}
