package endpoint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// two services with two endpoints each; the endpoints of b are preferred by distance.
const twoServices = `
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: tcp, protocol: TCP}]
  endpoints: [{address: 10.0.0.1, locality: r1/z1}, {address: 10.0.0.2, locality: r2/z1}]
---
kind: ServiceEntry
metadata: {name: b}
spec:
  hosts: [b.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.1.1, locality: r1/z1}, {address: 10.0.1.2, locality: r2/z1}]
---
kind: DestinationRule
metadata: {name: b}
spec:
  host: b.example.com
  trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}
  subsets: [{name: v1, labels: {version: v1}}]
`

const moreOfA = `
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 90, name: tcp, protocol: TCP}]
  endpoints: [{address: 10.0.0.1, locality: r1/z1}, {address: 10.0.0.3, locality: r2/z1}]
`

var watched = []string{
	"outbound|80||a.example.com", "outbound|90||a.example.com",
	"outbound|80||b.example.com", "outbound|80|v1|b.example.com",
}

func views(t testing.TB, m *fixture.Mesh) (list []*view.View) {
	for i, locality := range []string{"r1/z1", "r1/z1", "r2/z1"} {
		list = append(list, m.View(fixture.Proxy(t, fmt.Appendf(nil, "{namespace: n%d, locality: %s}", i, locality))))
	}
	return list
}

func TestEachDistinctAssignmentIsMadeOnce(t *testing.T) {
	m := fixture.New(t, []byte(twoServices), nil)
	g := endpoint.NewGenerator()
	var held []any
	ask := func() {
		for _, v := range views(t, m) {
			for _, name := range watched {
				held = append(held, g.Named(v, name))
			}
		}
	}
	ask()
	// a.example.com is the same for everyone, b.example.com differs by the caller's locality.
	if got, want := g.Computed(), uint64(2+2*2); got != want {
		t.Errorf("%d assignments were made for 3 views, want %d", got, want)
	}
	if _, d := m.Apply(t, moreOfA); !d.EndpointsOnly() {
		t.Fatalf("the change is not one of endpoints only: %+v", d)
	}
	before := g.Computed()
	ask()
	if got := g.Computed() - before; got != 2 {
		t.Errorf("%d assignments were made after a change of a.example.com's endpoints, want its 2", got)
	}
	if len(held) == 0 {
		t.Error("nothing is held")
	}
}

// TestEveryEqualsNamed, and in order.
func TestEveryEqualsNamed(t *testing.T) {
	m := fixture.New(t, []byte(twoServices), nil)
	g := endpoint.NewGenerator()
	for _, v := range views(t, m) {
		var names []string
		for _, r := range g.Every(v) {
			names = append(names, r.Name)
			if g.Named(v, r.Name) != r {
				t.Errorf("%s is another one by name", r.Name)
			}
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(watched)), names); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestAffected(t *testing.T) {
	const (
		ruleOfB  = "kind: DestinationRule\nmetadata: {name: more}\nspec: {host: b.example.com, subsets: [{name: v3}]}"
		sameEnds = "kind: ServiceEntry\nmetadata: {name: e}\nspec: {hosts: [example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}"
	)
	all := slices.Sorted(slices.Values(append(slices.Clone(watched), "outbound|80||gone.example.com", "outbound|81||a.example.com",
		"outbound|80|v9|b.example.com", "nonsense")))
	of := func(host string) []string {
		return slices.DeleteFunc(
			slices.Sorted(slices.Values(watched)),
			func(n string) bool { return !strings.HasSuffix(n, "|"+host) },
		)
	}
	for _, tc := range []struct {
		name, edit string
		want       []string
	}{
		{"endpoints", moreOfA, of("a.example.com")},
		{"a rule", ruleOfB, of("b.example.com")},
		{"a host with the same suffix", sameEnds, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := fixture.New(t, []byte(twoServices), nil)
			old := views(t, m)[0]
			_, d := m.Apply(t, tc.edit)
			got := endpoint.NewGenerator().Affected(old, views(t, m)[0], d, all)
			if diff := cmp.Diff(tc.want, slices.Sorted(slices.Values(got)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	v := views(t, fixture.New(t, []byte(twoServices), nil))[0]
	if diff := cmp.Diff(
		slices.Sorted(slices.Values(watched)),
		endpoint.NewGenerator().Affected(v, v, snapshot.Delta{All: true}, all),
	); diff != "" {
		t.Errorf("after anything may have changed, -want +got:\n%s", diff)
	}
}

// TestAffectedNamesAllThatDiffers makes many changes of the mesh and compares Affected with the
// assignments that differ. Only the assignment of a deleted cluster, which has no endpoints any
// more, may differ without being named.
func TestAffectedNamesAllThatDiffers(t *testing.T) {
	m := fixture.New(t, []byte(twoServices), nil)
	g := endpoint.NewGenerator()
	current := func() map[string]*resource.Resource {
		now := map[string]*resource.Resource{}
		for _, name := range watched {
			now[name] = g.Named(views(t, m)[0], name)
		}
		return now
	}
	different := 0
	for _, change := range []string{
		moreOfA,
		strings.Replace(twoServices, "consecutive5xxErrors: 3", "interval: 1s", 1),
		strings.Replace(twoServices, "trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}", "", 1),
		strings.Replace(twoServices, "labels: {version: v1}", "labels: {}", 1),
		strings.Replace(twoServices, "number: 90", "number: 91", 1),
		strings.Replace(twoServices, "resolution: STATIC", "resolution: DNS", 1),
		twoServices,
	} {
		before, old := current(), views(t, m)[0]
		_, d := m.Apply(t, change)
		after, affected := current(), g.Affected(old, views(t, m)[0], d, slices.Sorted(slices.Values(watched)))
		for _, name := range watched {
			if before[name].Version == after[name].Version {
				continue
			}
			different++
			if gone := len(after[name].From) == 0; !gone && !slices.Contains(affected, name) {
				t.Errorf("%s differs after the change but is not named:\n%s", name, change)
			}
		}
	}
	if different < 5 {
		t.Errorf("only %d assignments differed: the test is not effective", different)
	}
}
