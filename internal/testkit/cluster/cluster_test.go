package cluster

import (
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"go.uber.org/goleak"
)

var shared = NewShared(Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// within asks until a condition holds.
func within(t *testing.T, patience time.Duration, holds func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestRolesAreEnforced(t *testing.T) {
	c := shared.Start(t)
	ns := c.Namespace(t, "roles", nil)
	client, err := kubernetes.NewForConfig(c.ServiceAccountConfig(t, ns, "reader"))
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		_, err := client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) {
		t.Fatalf("an account without rights lists pods: %v", err)
	}
	c.Grant(t, ServiceAccount(ns, "reader"), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	within(t, 5*time.Second, list)
	_ = authorizationv1.SchemeGroupVersion
}

func TestControllers(t *testing.T) {
	c := Start(t, Options{Tier: Controllers})
	_ = c
}
