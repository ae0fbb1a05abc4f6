package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestInternedStrings checks that two pods, and two slices, share the memory of the texts that they
// have in common, and that nothing else of them changes.
func TestInternedStrings(t *testing.T) {
	t.Parallel()
	text := strings.Clone // as decoding makes it
	newPod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: text("shop"), Labels: map[string]string{text("app"): text("cart"), text("version"): text("v1")},
				OwnerReferences: []metav1.OwnerReference{{Kind: text("ReplicaSet"), Name: text("cart-7d9c")}},
			},
			Spec: corev1.PodSpec{
				NodeName: text("node-1"), ServiceAccountName: text("cart-account"),
				Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: text("http")}}}},
			},
		}
	}
	podTexts := func(p *corev1.Pod) []string {
		return slices.Concat(slices.Sorted(maps.Keys(p.Labels)), slices.Sorted(maps.Values(p.Labels)), []string{
			p.Namespace, p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name, p.Spec.NodeName,
			p.Spec.ServiceAccountName, p.Spec.Containers[0].Ports[0].Name,
		})
	}
	newSlice := func() *discoveryv1.EndpointSlice {
		node, zone, ready, terminating := text("node-1"), text("zone-a"), true, false
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: text("shop"), Labels: map[string]string{text("app"): text("cart")}},
			Endpoints: []discoveryv1.Endpoint{
				{
					NodeName: &node, Zone: &zone, TargetRef: &corev1.ObjectReference{Kind: text("Pod"), Namespace: text("shop")},
					Conditions: discoveryv1.EndpointConditions{Ready: &ready, Terminating: &terminating},
				},
				{},
			},
		}
	}
	sliceTexts := func(s *discoveryv1.EndpointSlice) []string {
		e := s.Endpoints[0]
		return slices.Concat(slices.Collect(maps.Keys(s.Labels)), slices.Collect(maps.Values(s.Labels)),
			[]string{s.Namespace, *e.NodeName, *e.Zone, e.TargetRef.Kind, e.TargetRef.Namespace})
	}
	check := func(kind string, a, b []string) {
		for i := range a {
			if a[i] != b[i] || unsafe.StringData(a[i]) != unsafe.StringData(b[i]) {
				t.Errorf("two %s have copies of %q", kind, a[i])
			}
		}
	}
	var texts interner
	p, q, r, s := newPod(), newPod(), newSlice(), newSlice()
	for _, o := range []metav1.Object{p, q, r, s} {
		texts.internObject(o)
	}
	check("pods", podTexts(p), podTexts(q))
	check("slices", sliceTexts(r), sliceTexts(s))
	a, b := r.Endpoints[0].Conditions, s.Endpoints[0].Conditions
	if a.Ready != b.Ready || a.Terminating != b.Terminating {
		t.Error("two slices have copies of conditions")
	}
	if diff := cmp.Diff(newPod(), p); diff != "" {
		t.Errorf("a pod changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(newSlice(), r); diff != "" {
		t.Errorf("a slice changed (-want +got):\n%s", diff)
	}
}
