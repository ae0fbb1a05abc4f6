package kube

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// BenchmarkArrive converts a pod as the API server sends it: with two containers and the fields
// that injection adds.
func BenchmarkArrive(b *testing.B) {
	info, _ := api.Info(api.Pod)
	made := make([]*corev1.Pod, b.N)
	for i := range made {
		p := pod(fmt.Sprint(i))
		p.Namespace, p.ResourceVersion = "default", "1"
		p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
		p.Labels = map[string]string{"app": "a", "version": "v1", "pod-template-hash": "6b7f9c8d5", "security.istio.io/tlsMode": "istio"}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}}}
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		made[i] = p
	}
	var texts interner
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if a := convertObject(info, "", &texts, made[i]); a.config == nil {
			b.Fatal(a.problems)
		}
	}
}
