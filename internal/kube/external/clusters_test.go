package external

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	"istio.io/api/annotation"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// shared is the API server of this package's tests, started by the first test that needs it.
var shared = cluster.NewShared(cluster.Options{IstioKinds: true}) //nolint:gochecknoglobals // started once for all tests

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// TestClustersThatSelectThisControlPlane checks which annotations select this control plane, and
// that its tasks run for the cluster while one does.
func TestClustersThatSelectThisControlPlane(t *testing.T) {
	api := shared.Start(t)
	client, err := kube.NewClient(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	name := api.Namespace(t, "istio-system", nil)
	annotate := func(value string) {
		t.Helper()
		namespace, err := client.Kubernetes.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		namespace.Annotations = map[string]string{annotation.TopologyControlPlaneClusters.Name: value}
		if _, err := client.Kubernetes.CoreV1().Namespaces().Update(t.Context(), namespace, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	running := make(chan mesh.ClusterID, 1)
	c := New(Options{
		Namespace: name, ClusterID: "east", Log: slog.New(slog.DiscardHandler),
		Tasks: []Task{{Name: "test", Run: func(ctx context.Context, id mesh.ClusterID, _ *kube.Client) error {
			running <- id
			<-ctx.Done()
			<-running
			return nil
		}}},
	})
	for value, want := range map[string]bool{
		"": false, "west": false, "east": true, "north, east": true, "*": true, "northeast": false,
	} {
		annotate(value)
		if got, err := c.isSelectedBy(t.Context(), client.Kubernetes); err != nil || got != want {
			t.Errorf("%q: %v (%v), want %v", value, got, err, want)
		}
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ended.Done()
	if _, err := c.isSelectedBy(ended, client.Kubernetes); err == nil {
		t.Error("no error from an API server that does not answer")
	}

	annotate("east")
	managing, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Manage(managing, "west", client) }()
	serving.Until(t, 20*time.Second, "the task runs", func() bool { return len(running) == 1 })
	stop()
	<-done
	if len(running) != 0 {
		t.Error("the task still runs")
	}
}
