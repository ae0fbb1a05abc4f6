package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTrimmedPod checks that trimming keeps the fields of a pod that state its identity, its
// controller (for metrics), its location, its ports, and annotations that are reported.
func TestTrimmedPod(t *testing.T) {
	t.Parallel()
	controls := true
	replicaSet := metav1.OwnerReference{Kind: "ReplicaSet", Name: "reviews-v1-7d9c", Controller: &controls}
	p := pod("reviews-v1-7d9c-x1")
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "2"}, replicaSet}
	p.OwnerReferences[1].APIVersion, p.OwnerReferences[1].UID = "apps/v1", "1"
	p.Annotations["policy.istio.io/check"] = "enable"
	p.Spec.NodeName = "node"
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", Message: "running",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}
	trimObject(p)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "reviews-v1-7d9c-x1", Labels: map[string]string{"app": "reviews-v1-7d9c-x1"},
			Annotations: map[string]string{"policy.istio.io/check": "enable"}, OwnerReferences: []metav1.OwnerReference{replicaSet},
		},
		Spec: corev1.PodSpec{NodeName: "node", ServiceAccountName: "sa", Containers: []corev1.Container{{
			Name: "app", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("a pod (-want +got):\n%s", diff)
	}
}
