package workload_test

import (
	"os"
	"path/filepath"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func params() workload.Params {
	return workload.Params{Services: 12, Endpoints: 3, Routes: 2, Namespaces: 3, Seed: 7}
}

func newMesh(t *testing.T, p workload.Params) *workload.Mesh {
	t.Helper()
	m, err := workload.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tree is the content of all files of a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestSameParamsSameBytes(t *testing.T) {
	for _, scope := range []workload.Scope{workload.Mixed, workload.Everything, workload.Namespace, workload.Workload} {
		var trees []map[string]string
		for range 2 {
			dir := t.TempDir()
			p := params()
			p.Scope, p.FilePerObject = scope, scope == workload.Namespace
			if err := newMesh(t, p).WriteDir(dir); err != nil {
				t.Fatal(err)
			}
			if got, err := workload.ReadParams(dir); err != nil || got != p {
				t.Errorf("read back %+v, %v; want %+v", got, err, p)
			}
			trees = append(trees, tree(t, dir))
		}
		if d := cmp.Diff(trees[0], trees[1]); d != "" || len(trees[0]) < 5 {
			t.Errorf("scope %q: %d files differ: %s", scope, len(trees[0]), d)
		}
	}
}

// Every object must be one that the control plane reads, with no unknown field.
func TestObjectsAreValid(t *testing.T) {
	for _, scope := range []workload.Scope{workload.Mixed, workload.Workload} {
		dir := t.TempDir()
		p := params()
		p.Scope = scope
		m := newMesh(t, p)
		if err := m.WriteDir(dir); err != nil {
			t.Fatal(err)
		}
		n := 0
		for name, text := range tree(t, dir) {
			if filepath.Ext(name) != ".yaml" {
				continue
			}
			list, err := fixture.Decode([]byte(text))
			if err != nil {
				t.Errorf("scope %q, %s: %v", scope, name, err)
			}
			n += len(list)
		}
		if n != len(m.Objects()) {
			t.Errorf("scope %q: %d objects in files, want %d", scope, n, len(m.Objects()))
		}
	}
}

func TestBadParams(t *testing.T) {
	for name, change := range map[string]func(*workload.Params){
		"no endpoints":            func(p *workload.Params) { p.Endpoints = 0 },
		"too few services":        func(p *workload.Params) { p.Services = 5 },
		"more than fit":           func(p *workload.Params) { p.Services = 1 << 20 },
		"a scope that is unknown": func(p *workload.Params) { p.Scope = "galaxy" },
	} {
		p := params()
		change(&p)
		if _, err := workload.New(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSees(t *testing.T) {
	m := newMesh(t, params()) // mixed: of three namespaces the middle one is narrowed to 0 and 1
	for proxy, want := range map[int][3]bool{0: {true, true, true}, 1: {true, true, false}, 2: {true, true, true}, 4: {true, true, false}} {
		for i := range want {
			if got := m.SeesNamespace(proxy, workload.NamespaceName(i)); got != want[i] {
				t.Errorf("proxy %d sees namespace %d: %t, want %t", proxy, i, got, want[i])
			}
		}
	}
}

func TestMarksAreFound(t *testing.T) {
	m := newMesh(t, params())
	const number = 157
	find := func(typ wire.Type, text string) []workload.Mark { return workload.FindMarks(typ, []byte(text)) }
	for c, text := range map[workload.Change]string{
		workload.EndpointEdit: "\x12\x0e10.251.101.107", workload.RouteEdit: "mk-rt-000157", workload.AddService: "outbound|80||mk-svc-000157.bench-000",
	} {
		if _, err := m.MakeChange(c, workload.SharedNamespace, 0, number); err != nil {
			t.Errorf("%s: %v", c, err)
		}
		if got := find(c.Types()[0], text); !cmp.Equal(got, []workload.Mark{{Change: c, Number: number}}) {
			t.Errorf("%s: found %v", c, got)
		}
	}
	b, err := proto.Marshal(&clusterv3.Cluster{Name: "c", CircuitBreakers: &clusterv3.CircuitBreakers{
		Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{MaxConnections: wrapperspb.UInt32(2_000_157)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := workload.FindMarks(wire.CDS, b); !cmp.Equal(got, []workload.Mark{{Change: workload.RuleEdit, Number: number}}) {
		t.Errorf("destinationrule: found %v", got)
	}
	if got, ok := workload.FindRemoval(wire.CDS, []byte("outbound|80||mk-svc-000157.bench-000.svc.cluster.local")); !ok || got.Number != number {
		t.Errorf("removal: found %v, %t", got, ok)
	}
	if got := find(wire.EDS, "10.251.9.9 10.251.1"); got != nil {
		t.Errorf("found %v in a text without a mark", got)
	}
}

func TestChangesAreInFiles(t *testing.T) {
	m := newMesh(t, params())
	seen := map[string]bool{}
	for i, c := range []workload.Change{
		workload.EndpointEdit, workload.RouteEdit, workload.RuleEdit, workload.AddService, workload.MetadataEdit, workload.StatusEdit,
	} {
		e, err := m.MakeChange(c, workload.SharedNamespace, i, i+1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.RenderFile(e.Object.File())
		if err != nil || seen[string(b)] {
			t.Errorf("%s: the file is not another one, %v", c, err)
		}
		seen[string(b)] = true
	}
	before, _ := m.RenderFile(workload.SharedNamespace + "/services.yaml")
	e, err := m.MakeChange(workload.RemoveService, workload.SharedNamespace, 0, 4)
	if err != nil || !e.Removed {
		t.Fatalf("remove the service that was added: %+v, %v", e, err)
	}
	if after, _ := m.RenderFile(e.Object.File()); len(after) >= len(before) {
		t.Error("the removed service is still in its file")
	}
	if _, err := m.MakeChange(workload.RemoveService, workload.SharedNamespace, 0, 4); err == nil {
		t.Error("a service was removed twice")
	}
}
