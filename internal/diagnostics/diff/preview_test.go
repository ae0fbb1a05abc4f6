package diff_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/ingest"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// pipeline is a running ingest pipeline whose batches the test sends.
type pipeline struct {
	t        *testing.T
	builder  *snapshot.Builder
	previews *ingest.Previews
	batches  chan mesh.Batch
	observed chan struct{}
}

// Name returns the name of the feed.
func (*pipeline) Name() string { return "fixture" }

// Run sends the test's batches.
func (p *pipeline) Run(ctx context.Context, out chan<- mesh.Batch) error {
	for {
		select {
		case b := <-p.batches:
			out <- b
		case <-ctx.Done():
			return nil
		}
	}
}

func startPipeline(t *testing.T) *pipeline {
	t.Helper()
	p := &pipeline{
		t: t, batches: make(chan mesh.Batch), observed: make(chan struct{}),
		builder:  snapshot.NewBuilder(snapshot.Options{Cluster: "Kubernetes", Allocation: snapshot.DefaultAllocation()}),
		previews: ingest.NewPreviews(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- ingest.Run(ctx, ingest.Options{
			Feeds: []ingest.Feed{p}, Builder: p.builder, Previews: p.previews, Log: slog.New(slog.DiscardHandler),
			Filters: []registry.Converter{namespaces.New(namespaces.Options{})},
			Converters: []registry.Converter{
				ingress.New(ingress.Options{}), gatewayapi.New(gatewayapi.Options{}),
				serviceentry.New(serviceentry.Options{SelectPods: true}),
				kube.New(kube.Options{EndpointsFromPods: true, SelectWorkloadEntries: true, DiscoverGateways: true}),
			},
			Publish: func(*snapshot.Snapshot, snapshot.Delta) {},
			Observe: func(mesh.Batch) { p.observed <- struct{}{} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

// send applies a batch and returns a copy of the state afterwards.
func (p *pipeline) send(batch mesh.Batch) *ingest.Preview {
	p.t.Helper()
	p.batches <- batch
	<-p.observed
	return p.copy()
}

func (p *pipeline) copy() *ingest.Preview {
	p.t.Helper()
	x, err := p.previews.Copy(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return x
}

// TestPreview applies random edits to a preview and then to the pipeline itself. Both must lead to
// the same resources of all proxies and the same Problems, and the preview must not affect the
// pipeline.
func TestPreview(t *testing.T) {
	meshes, edits := longtest.Rounds(2, 25), longtest.Rounds(10, 40)
	base, err := os.ReadFile("testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(meshes) {
		random := rand.New(rand.NewPCG(seed, 2))
		p := startPipeline(t)
		settings, err := mesh.ParseMeshConfig([]byte("discoverySelectors: [{matchExpressions: [{key: hidden, operator: DoesNotExist}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		batch := append(mesh.Batch{{Settings: &mesh.Settings{Mesh: settings}}}, decodeEvents(t, mesh.Upsert, string(base))...)
		p.send(append(batch, mesh.Event{Op: mesh.Synced, Source: p.Name()}))
		var log []string
		for range edits {
			text := randomEdit(t, random)
			if random.IntN(10) == 0 {
				text = "kind: Namespace\nmetadata: {name: other, labels: {hidden: 'yes'}}"
			}
			op := []mesh.Op{mesh.Upsert, mesh.Upsert, mesh.Delete}[random.IntN(3)]
			events := decodeEvents(t, op, text)
			log = append(log, op.String()+" "+text)
			preview := p.copy()
			before := preview.Snapshot()
			var changed []*config.Config
			var deleted []config.Key
			for _, e := range events {
				if op == mesh.Delete {
					deleted = append(deleted, e.Config.Key)
				} else {
					changed = append(changed, e.Config)
				}
			}
			applied := make(chan *snapshot.Snapshot, 1)
			apply := func() {
				s, err := preview.Apply(changed, deleted, nil)
				if err != nil {
					t.Error(err)
				}
				applied <- s
			}
			if random.IntN(2) == 0 { // else at the same time as the pipeline, for the race detector
				apply()
				if now := p.copy().Snapshot(); now != before {
					t.Fatalf("seed %d: the preview changed the pipeline, after\n%s", seed, strings.Join(log, "\n---\n"))
				}
			} else {
				go apply()
			}
			real := p.send(events).Snapshot()
			after := <-applied
			if text := compareSnapshots(t, after, real); text != "" {
				t.Fatalf("seed %d: the preview differs from the real change:\n%s\nafter\n%s", seed, text, strings.Join(log, "\n---\n"))
			}
		}
	}
}

func decodeEvents(t *testing.T, op mesh.Op, text string) mesh.Batch {
	t.Helper()
	list, err := fixture.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return fixture.Events(op, list...)
}

// compareSnapshots returns the differences between two snapshots that should be equal: in the
// resources of the proxies that they imply, and in Problems.
func compareSnapshots(t *testing.T, a, b *snapshot.Snapshot) string {
	t.Helper()
	in := diff.Input{Before: a, After: b, Generators: translate.NewTable(translate.Options{}).Generators}
	here, there := offline.Proxies(a), offline.Proxies(b)
	for name, p := range here {
		if there[name] == nil {
			return name + " is missing"
		}
		in.Proxies = append(in.Proxies, p)
	}
	if len(here) != len(there) {
		return fmt.Sprintf("%d proxies and %d", len(here), len(there))
	}
	r, err := diff.Compare(in)
	if err != nil {
		t.Fatal(err)
	}
	if r.Empty() {
		return ""
	}
	return r.Text()
}

// TestPreviewKeepsServerFields previews manifests of objects that an API server completed: cluster
// IPs, node ports and status are not in the manifests, and do not change.
func TestPreviewKeepsServerFields(t *testing.T) {
	const running = `
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], selector: {app: db}, ports: [{name: tcp, port: 5432, nodePort: 30001}]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.9}]}}
---
apiVersion: v1
kind: Service
metadata: {name: replicas, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {clusterIP: None, clusterIPs: [None], selector: {app: db}, ports: [{name: tcp, port: 5433}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {containers: [{name: db}]}
status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}], conditions: [{type: Ready, status: "True"}]}
`
	const manifests = `
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {type: LoadBalancer, selector: {app: db}, ports: [{name: tcp, port: 5432, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: replicas, namespace: shop}
spec: {selector: {app: db}, ports: [{name: tcp, port: 5433}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: db}]}
`
	const added = `
apiVersion: v1
kind: Service
metadata: {name: users-db, namespace: shop}
spec: {selector: {app: users-db}, ports: [{name: tcp, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: carts-db, namespace: shop}
spec: {selector: {app: carts-db}, ports: [{name: tcp, port: 5432}]}
`
	p := startPipeline(t)
	settings, err := mesh.ParseMeshConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := append(mesh.Batch{{Settings: &mesh.Settings{Mesh: settings}}}, decodeEvents(t, mesh.Upsert, running)...)
	before := p.send(append(batch, mesh.Event{Op: mesh.Synced, Source: p.Name()})).Snapshot()
	preview := func(text string) *snapshot.Snapshot {
		t.Helper()
		var changed []*config.Config
		for _, e := range decodeEvents(t, mesh.Upsert, text) {
			changed = append(changed, e.Config)
		}
		after, err := p.copy().Apply(changed, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	if text := compareSnapshots(t, before, preview(manifests)); text != "" {
		t.Errorf("the manifests of running objects change\n%s", text)
	}
	after := preview(added)
	addresses := map[string]bool{}
	for _, s := range after.Services() {
		if s.Host == "users-db.shop.svc.cluster.local" || s.Host == "carts-db.shop.svc.cluster.local" {
			addresses[strings.Join(s.Addresses, ",")] = true
		}
	}
	if len(addresses) != 2 || addresses[""] {
		t.Errorf("new Services have the addresses %v, want one for each", addresses)
	}
}
