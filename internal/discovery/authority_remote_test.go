package discovery

import (
	"context"
	"testing"
	"time"

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
	w := withRoots{s: s, id: "west", client: client}
	for annotation, want := range map[string]bool{"": false, "west": false, "east": true, "north, east": true, "*": true, "northeast": false} {
		namespace, err := client.Kubernetes.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		namespace.Annotations = map[string]string{controlledBy: annotation}
		if _, err := client.Kubernetes.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := w.controlled(t.Context()); got != want {
			t.Errorf("%q: %v, want %v", annotation, got, want)
		}
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ended.Done()
	if w.controlled(ended) {
		t.Error("a cluster that does not answer is looked after")
	}
}
