package compat

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// tagRevision has istioctl set a revision tag for our installation. Pods of a namespace with that
// tag are injected.
func (s *shop) tagRevision(t *testing.T) {
	out, err := s.ctl(t, "tag", "set", "prod", "--revision", "default", "--skip-confirmation", "--manifests", sourceFile(t, "manifests"))
	if err != nil || !strings.Contains(out, `"prod" created`) {
		t.Fatalf("istioctl tag set: %v\n%s", err, out)
	}
	if out, err := s.ctl(t, "tag", "list"); err != nil || !strings.Contains(out, "prod") {
		t.Errorf("istioctl tag list: %v\n%s", err, out)
	}
	client := s.cluster.Client(t).CoreV1()
	if _, err := client.Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "tagged", Labels: map[string]string{"istio.io/rev": "prod"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "pause:1"}}},
	}
	serving.Eventually(t, patience, "a pod of a namespace with the tag is injected", func() error {
		got, err := client.Pods("tagged").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && !slices.ContainsFunc(slices.Concat(got.Spec.InitContainers, got.Spec.Containers),
			func(c corev1.Container) bool { return c.Name == "istio-proxy" }) {
			err = errors.New("it has no istio-proxy")
		}
		return err
	})
}
