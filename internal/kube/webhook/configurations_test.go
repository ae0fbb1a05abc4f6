package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestReplicasAgree runs several replicas with the same roots: one write is enough for all, and
// concurrent changes of others are preserved.
func TestReplicasAgree(t *testing.T) {
	f := newFixture(t)
	ns := f.cluster.Namespace(t, "replicas", nil)
	f.injection(t, ns, ns, "/inject")
	for range 3 {
		f.runConfigurations(nil)
	}
	f.trusted(t, ns)
	configs := f.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configs.Patch(
		t.Context(),
		ns,
		"application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"mine":"stays"}}}`),
		metav1.PatchOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	f.roots.rotate()
	f.trusted(t, ns)
	m, err := configs.Get(t.Context(), ns, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Created, patched for the first roots, patched for the second ones; labels are no new generation.
	if m.Labels["mine"] != "stays" || m.Generation > 3 {
		t.Errorf("labels %v, generation %d", m.Labels, m.Generation)
	}
	w := m.Webhooks[0]
	if len(w.Rules) != 1 || *w.ClientConfig.URL != f.url+"/inject" || w.NamespaceSelector == nil {
		t.Errorf("more than the caBundle was written: %+v", w)
	}
}

// TestConflictingWritersAreSlow runs two control planes of one revision with different roots: the
// rate limit bounds their writes.
func TestConflictingWritersAreSlow(t *testing.T) {
	longtest.Test(t)
	f := newFixture(t)
	ns := f.cluster.Namespace(t, "quarrel", nil)
	f.injection(t, ns, ns, "/inject")
	other := newRoots()
	begin := time.Now()
	f.runConfigurations(nil)
	f.runConfigurations(func(c *Configurations) { c.CABundle = other.bundle })
	generation := func() int64 {
		m, err := f.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(
			context.Background(),
			ns,
			metav1.GetOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
		return m.Generation
	}
	serving.Eventually(t, patience, "writes of both", func() error {
		if g := generation(); g <= 1+writeBurst { // one of them may have made all
			return fmt.Errorf("generation %d", g)
		}
		return nil
	})
	time.Sleep(2 * time.Second) // without a limit, each answers a write of the other within milliseconds
	most := 1 + 2*(writeBurst+int64(time.Since(begin)/writeInterval))
	if g := generation(); g > most {
		t.Errorf("%d writes within %s, at most %d are allowed", g-1, time.Since(begin), most-1)
	}
}

// TestOtherWebhooksAreNotChanged: configurations of another revision and webhooks with another name
// are not changed.
func TestOtherWebhooksAreNotChanged(t *testing.T) {
	f := newFixture(t)
	ns := f.cluster.Namespace(t, "others", nil)
	ours := f.revision
	f.revision = "another"
	f.injection(t, ns+"-another", ns, "/inject")
	f.revision = ours
	f.injection(t, ns, ns, "/inject")
	f.runConfigurations(nil)
	f.trusted(t, ns)
	m, err := f.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(
		t.Context(),
		ns+"-another",
		metav1.GetOptions{},
	)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Webhooks[0].ClientConfig.CABundle) > 0 {
		t.Error("another revision's configuration was written")
	}
}
