package feed_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/test/perf/feed"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

const serviceEntries = "networking.istio.io/v1/ServiceEntry"

func newMesh(t *testing.T) *workload.Mesh {
	t.Helper()
	m, err := workload.New(workload.Params{Services: 12, Endpoints: 3, Routes: 2, Namespaces: 3, FilePerObject: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func change(t *testing.T, m *workload.Mesh, c workload.Change, number int) workload.Edit {
	t.Helper()
	e, err := m.MakeChange(c, workload.SharedNamespace, 0, number)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func apply(t *testing.T, f feed.Feed, e workload.Edit) {
	t.Helper()
	began := false
	if err := f.Apply(e, func() { began = true }); err != nil || !began {
		t.Fatalf("apply: clock started %t, %v", began, err)
	}
}

func TestFile(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "config")
	m := newMesh(t)
	f, err := feed.NewFile(m, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	path := func(e workload.Edit) string { return filepath.Join(dir, e.Object.File()) }

	e := change(t, m, workload.RouteEdit, 5)
	apply(t, f, e)
	if b, _ := os.ReadFile(path(e)); !strings.Contains(string(b), "mk-rt-000005") {
		t.Errorf("the edit is not in %s", path(e))
	}
	e = change(t, m, workload.AddService, 6)
	apply(t, f, e)
	if _, err := os.Stat(path(e)); err != nil {
		t.Error(err)
	}
	e = change(t, m, workload.RemoveService, 6)
	apply(t, f, e)
	if _, err := os.Stat(path(e)); !os.IsNotExist(err) {
		t.Errorf("the file of a removed object: %v", err)
	}
	if list, _ := os.ReadDir(parent); len(list) != 1 {
		t.Errorf("something is left beside the directory: %v", list)
	}
}

func TestXDS(t *testing.T) {
	m := newMesh(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	f, err := feed.NewXDS(m, address)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Apply(change(t, m, workload.EndpointEdit, 1), func() {}) == nil {
		t.Error("a change was sent to no client, without an error")
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	sotw, err := client.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	delta, err := client.DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}

	ask(t, sotw, delta, serviceEntries)
	whole, all := receive(t, sotw, delta)
	if len(whole.Resources) != 12 || len(all.Resources) != 12 {
		t.Fatalf("%d and %d ServiceEntries, want 12", len(whole.Resources), len(all.Resources))
	}
	ask(t, sotw, delta, "extensions.istio.io/v1alpha1/WasmPlugin") // types that are empty are answered too
	if whole, all := receive(t, sotw, delta); len(whole.Resources)+len(all.Resources) > 0 {
		t.Error("there are resources of an empty type")
	}

	apply(t, f, change(t, m, workload.AddService, 9))
	whole, all = receive(t, sotw, delta)
	if len(whole.Resources) != 13 || len(all.Resources) != 1 || all.Resources[0].Name != "bench-000/mk-svc-000009" {
		t.Errorf("after one was added: %d whole, delta %v", len(whole.Resources), all.Resources)
	}
	if host := hostOf(t, all.Resources[0].Resource); host != "mk-svc-000009.bench-000.svc.cluster.local" {
		t.Errorf("the host is %q", host)
	}
	apply(t, f, change(t, m, workload.RemoveService, 9))
	whole, all = receive(t, sotw, delta)
	if len(whole.Resources) != 12 || len(all.RemovedResources) != 1 {
		t.Errorf("after one was removed: %d whole, removed %q", len(whole.Resources), all.RemovedResources)
	}
}

func ask(t *testing.T, sotw discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient,
	delta discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, url string) {
	t.Helper()
	node := &corev3.Node{Id: "plane"}
	if err := sotw.Send(&discoveryv3.DiscoveryRequest{TypeUrl: url, Node: node}); err != nil {
		t.Fatal(err)
	}
	if err := delta.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: url, Node: node}); err != nil {
		t.Fatal(err)
	}
}

// receive takes a response on each stream and acknowledges it.
func receive(t *testing.T, sotw discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient,
	delta discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient) (*discoveryv3.DiscoveryResponse, *discoveryv3.DeltaDiscoveryResponse) {
	t.Helper()
	whole, err := sotw.Recv()
	if err == nil {
		err = sotw.Send(&discoveryv3.DiscoveryRequest{TypeUrl: whole.TypeUrl, ResponseNonce: whole.Nonce, VersionInfo: whole.VersionInfo})
	}
	if err != nil {
		t.Fatal(err)
	}
	step, err := delta.Recv()
	if err == nil {
		err = delta.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: step.TypeUrl, ResponseNonce: step.Nonce})
	}
	if err != nil {
		t.Fatal(err)
	}
	return whole, step
}

func hostOf(t *testing.T, a *anypb.Any) string {
	t.Helper()
	r, se := new(mcp.Resource), new(networking.ServiceEntry)
	if err := a.UnmarshalTo(r); err != nil {
		t.Fatal(err)
	}
	if err := r.Body.UnmarshalTo(se); err != nil {
		t.Fatal(err)
	}
	return se.Hosts[0]
}
