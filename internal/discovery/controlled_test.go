package discovery

import (
	"context"
	"testing"
	"time"

	"istio.io/api/annotation"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/kube"
)

// TestWhoLooksAfterACluster: the roots are published in a remote cluster only where its owner says that we look after it.
func TestWhoLooksAfterACluster(t *testing.T) {
	c := shared.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	ns := c.Namespace(t, "istio-system", nil)
	o := testOptions(t, t.TempDir())
	o.Namespace, o.ClusterID = ns, "east"
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]bool{"": false, "west": false, "east": true, "north, east": true, "*": true, "northeast": false} {
		namespace, err := client.Kubernetes.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		namespace.Annotations = map[string]string{annotation.TopologyControlPlaneClusters.Name: said}
		if _, err := client.Kubernetes.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.chosenBy(t.Context(), client); err != nil || got != want {
			t.Errorf("%q: %v (%v), want %v", said, got, err, want)
		}
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ended.Done()
	if _, err := s.chosenBy(ended, client); err == nil {
		t.Error("a cluster that does not answer has said something")
	}
}
