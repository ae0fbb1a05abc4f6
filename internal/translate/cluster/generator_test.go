package cluster

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/testkit/fixture"
	"github.com/meshpilot/meshpilot/internal/view"
)

// threeServices are two of EDS and one whose names are resolved, with a rule for the first.
const threeServices = `
kind: ServiceEntry
metadata: {name: a}
spec: {hosts: [a.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.1}]}
---
kind: ServiceEntry
metadata: {name: b}
spec: {hosts: [b.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.1.1}]}
---
kind: ServiceEntry
metadata: {name: c}
spec: {hosts: [c.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: x.example.com}]}
---
kind: DestinationRule
metadata: {name: a}
spec: {host: a.example.com, subsets: [{name: v1, labels: {version: v1}}]}
`

// outboundClusters is how many clusters threeServices make.
const outboundClusters = 4

// sidecars gives the Views of n sidecars, each of a namespace and a locality of its own.
func sidecars(t testing.TB, m *fixture.Mesh, n int) []*view.View {
	t.Helper()
	list := make([]*view.View, n)
	for i := range list {
		list[i] = m.View(fixture.Proxy(t, fmt.Appendf(nil, "{namespace: n%d, locality: r%d}", i, i)))
	}
	return list
}

// TestEachDistinctClusterIsMadeOnce counts translations: they grow with what differs, not with the number of proxies.
func TestEachDistinctClusterIsMadeOnce(t *testing.T) {
	m := fixture.New(t, []byte(threeServices), nil)
	g := NewGenerator()
	var held [][]*resource.Resource
	made := func() uint64 {
		before := g.Computed()
		for _, v := range sidecars(t, m, 10) {
			held = append(held, g.All(v))
		}
		return g.Computed() - before
	}
	if got, want := made(), uint64(outboundClusters+len(builtins("sidecar"))); got != want {
		t.Errorf("%d clusters were made for 10 sidecars, want %d", got, want)
	}
	for _, tc := range []struct {
		name, old, new string
		want           uint64
	}{
		{"endpoints by EDS", "10.0.0.1", "10.0.0.2", 0},
		{"names to resolve", "x.example.com", "y.example.com", 1},
		{"a rule", "{version: v1}", "{version: v2}", 2},
		{"a service", "name: b}", "name: b, labels: {k: v}}", 1},
	} {
		m.Apply(t, strings.Replace(threeServices, tc.old, tc.new, 1))
		if got := made(); got != tc.want {
			t.Errorf("%s changed: %d clusters were made for 10 sidecars, want %d", tc.name, got, tc.want)
		}
		m.Apply(t, threeServices)
		made()
	}
	if len(held) == 0 {
		t.Error("nothing is held")
	}
}

// TestEqualBytes holds two Generators, and the same mesh told in another order, to equal bytes.
func TestEqualBytes(t *testing.T) {
	documents := strings.Split(threeServices, "---")
	slices.Reverse(documents)
	// Creation times follow the order of the text; nothing here competes, so they make no difference.
	one := sidecars(t, fixture.New(t, []byte(threeServices), nil), 1)[0]
	other := sidecars(t, fixture.New(t, []byte(strings.Join(documents, "---")), nil), 1)[0]
	a, b := set(t, one), set(t, other)
	if a.Version() != b.Version() {
		t.Errorf("versions are %s and %s", a.Version(), b.Version())
	}
	for i, r := range a.List() {
		if !bytes.Equal(r.Body, b.List()[i].Body) {
			t.Errorf("%s differs", r.Name)
		}
	}
}

func set(t *testing.T, v *view.View) *resource.Set {
	t.Helper()
	s, err := resource.NewSet(NewGenerator().All(v))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
