package ca

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRotationKeepsMetadata: a new root replaces the data of its Secret, and keeps what others have
// added to the Secret.
func TestRotationKeepsMetadata(t *testing.T) {
	before := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "istio-system", Name: SelfSignedSecret, ResourceVersion: "7",
			Labels: map[string]string{"backup": "yes"}, Annotations: map[string]string{"note": "a"},
		},
		Type: corev1.SecretTypeOpaque, Data: selfSigned(t).entries(),
	}
	client := fake.NewClientset(before)
	s := SecretStore{Client: client, Namespace: before.Namespace, Name: before.Name}
	next := selfSigned(t)
	if err := s.Store(t.Context(), next, before.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	now, err := client.CoreV1().Secrets(s.Namespace).Get(t.Context(), s.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := before.DeepCopy()
	want.Data, want.ResourceVersion, want.ManagedFields = next.entries(), now.ResourceVersion, now.ManagedFields
	if diff := cmp.Diff(want, now); diff != "" {
		t.Errorf("the Secret (-want +got):\n%s", diff)
	}
}
