package diff_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// BenchmarkCompare compares a mesh before and after an edit of one rule. It has one proxy for each
// service, in a class of its own, and every proxy sees every service.
func BenchmarkCompare(b *testing.B) {
	for _, services := range []int{500, 2000} {
		b.Run(fmt.Sprintf("classes=%d", services), func(b *testing.B) { benchmarkCompare(b, services) })
	}
}

func benchmarkCompare(b *testing.B, services int) {
	m, err := workload.New(workload.Params{Services: services, Endpoints: 2, Routes: 3, Namespaces: 20, Scope: workload.Everything})
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := m.WriteDir(dir); err != nil {
		b.Fatal(err)
	}
	before, err := offline.ReadWorkloads([]string{dir}, nil)
	if err != nil {
		b.Fatal(err)
	}
	proxies := benchmarkProxies(b, m, services)
	namespace := proxies[0].Namespace
	host := proxies[0].Name[:strings.LastIndexByte(proxies[0].Name, '-')] + "." + namespace + ".svc.cluster.local"
	const edit = `{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: edited, namespace: %[2]s},
 spec: {hosts: [edited.example], http: [{timeout: 7s, route: [{destination: {host: %[1]s}}]}]}}`
	state, err := offline.NewMesh(nil)
	if err != nil {
		b.Fatal(err)
	}
	old := state.SetObjects(before)
	next := state.SetObjects(before.Overlay(offline.DecodeObjects("change.yaml", fmt.Appendf(nil, edit, host, namespace))))
	classes := map[view.Key]bool{}
	for _, p := range proxies {
		classes[view.KeyFor(old, p)] = true
	}
	if len(classes) != services {
		b.Fatalf("%d classes", len(classes))
	}
	table := translate.NewTable(translate.Options{})
	b.ReportAllocs()
	for b.Loop() {
		in := diff.NewInput(table, translate.Unhonoured)
		in.Before, in.After, in.Proxies, in.MaxDifferences = old, next, proxies, 5000
		r, err := diff.Compare(in)
		if err != nil {
			b.Fatal(err)
		}
		if r.Changed != services {
			b.Fatalf("%d proxies change", r.Changed)
		}
	}
}

// benchmarkProxies returns a sidecar for each service, at its first endpoint.
func benchmarkProxies(b *testing.B, m *workload.Mesh, n int) (list []*mesh.Proxy) {
	b.Helper()
	nodes, err := m.Nodes(n)
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range nodes {
		node := new(corev3.Node)
		if err := proto.Unmarshal(x.Bytes, node); err != nil {
			b.Fatal(err)
		}
		parts := strings.Split(node.GetId(), "~")
		name, _, _ := strings.Cut(parts[2], ".")
		list = append(list, offline.NewProxy(mesh.SidecarProxy, name, x.Namespace, netip.MustParseAddr(parts[1])))
	}
	return list
}
