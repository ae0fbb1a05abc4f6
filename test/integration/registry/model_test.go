package registry

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	kuberegistry "github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	kubesource "github.com/meshpilot/meshpilot/internal/ingest/source/kube"
	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

var shared = cluster.NewShared(cluster.Options{Tier: cluster.Controllers, IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// patience is the timeout of each wait.
const patience = 30 * time.Second

// model is the mesh converted from the cluster's objects.
type model struct {
	*testing.T
	cluster  *cluster.Cluster
	settings chan *mesh.Settings
	newest   chan *snapshot.Snapshot // holds one
	last     *snapshot.Snapshot
}

// settingsFeed hands mesh configurations on.
type settingsFeed chan *mesh.Settings

func (settingsFeed) Name() string { return "settings" }

func (f settingsFeed) Run(ctx context.Context, out chan<- mesh.Batch) error {
	batch := mesh.Batch{{Op: mesh.Synced, Source: "settings"}}
	for {
		select {
		case out <- batch:
		case <-ctx.Done():
			return nil
		}
		select {
		case s := <-f:
			batch = mesh.Batch{{Source: "settings", Settings: s}}
		case <-ctx.Done():
			return nil
		}
	}
}

// start makes the model of a cluster until the test ends.
func start(t *testing.T, c *cluster.Cluster) *model {
	t.Helper()
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	m := &model{T: t, cluster: c, settings: make(chan *mesh.Settings), newest: make(chan *snapshot.Snapshot, 1)}
	source := kubesource.New(kubesource.Options{Client: client, Name: "kubernetes/c1", Kinds: append(kubesource.ServiceKinds(), kubesource.ConfigKinds()...)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- ingest.Run(ctx, ingest.Options{
			Feeds:   []ingest.Feed{settingsFeed(m.settings), source},
			Filters: []registry.Converter{namespaces.New(namespaces.Options{Sources: []string{source.Name()}})},
			Converters: []registry.Converter{
				ingress.New(ingress.Options{}),
				serviceentry.New(serviceentry.Options{Cluster: "c1", SelectPods: true}),
				kuberegistry.New(kuberegistry.Options{Cluster: "c1", SelectWorkloadEntries: true, DiscoverGateways: true}),
			},
			Builder: snapshot.NewBuilder(snapshot.Options{Cluster: "c1"}), Log: slog.New(slog.DiscardHandler), Publish: m.publish,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		client.HTTP.CloseIdleConnections()
	})
	return m
}

func (m *model) publish(s *snapshot.Snapshot, _ snapshot.Delta) {
	select {
	case <-m.newest:
	default:
	}
	m.newest <- s
}

// eventually waits until a snapshot is as wanted.
func (m *model) eventually(what string, wanted func(*snapshot.Snapshot) error) {
	m.Helper()
	late := time.After(patience)
	for {
		err := error(nil)
		if m.last != nil {
			if err = wanted(m.last); err == nil {
				return
			}
		}
		select {
		case m.last = <-m.newest:
		case <-late:
			m.Fatalf("%s: %v after %s", what, err, patience)
		}
	}
}

// choose sets what of the mesh configuration the test is about.
func (m *model) choose(meshConfig string) {
	m.Helper()
	parsed, err := mesh.ParseMeshConfig([]byte(meshConfig))
	if err != nil {
		m.Fatal(err)
	}
	m.settings <- &mesh.Settings{Mesh: parsed}
}

func (m *model) apply(format string, args ...any) {
	m.Helper()
	if err := m.cluster.Apply(m.Context(), fmt.Sprintf(format, args...)); err != nil {
		m.Fatal(err)
	}
}

// pod creates a pod without a kubelet, and writes its status.
func (m *model) pod(namespace, name, labels, spec, ip, ready string) {
	m.Helper()
	m.apply("{apiVersion: v1, kind: Node, metadata: {name: node}}")
	m.apply("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {%s}}, spec: {%s}}", name, namespace, labels, spec)
	m.podIs(namespace, name, ip, ready)
}

func (m *model) podIs(namespace, name, ip, ready string) {
	m.Helper()
	status := fmt.Sprintf(`{"status": {"phase": "Running", "podIP": %q, "podIPs": [{"ip": %q}], "conditions": [{"type": "Ready", "status": %q}]}}`, ip, ip, ready)
	_, err := m.cluster.Client(m).CoreV1().Pods(namespace).Patch(m.Context(), name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	if err != nil {
		m.Fatal(err)
	}
}

func host(name, namespace string) mesh.ServiceKey {
	return mesh.ServiceKey{Namespace: namespace, Host: mesh.Hostname(name + "." + namespace + ".svc.cluster.local")}
}
