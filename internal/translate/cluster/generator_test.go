package cluster

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
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

// sidecars returns the Views of n sidecars, each of a namespace and a locality of its own.
func sidecars(t testing.TB, m *fixture.Mesh, n int) []*view.View {
	t.Helper()
	list := make([]*view.View, n)
	for i := range list {
		list[i] = m.View(fixture.Proxy(t, fmt.Appendf(nil, "{namespace: n%d, locality: r%d}", i, i)))
	}
	return list
}

// TestEachDistinctClusterIsMadeOnce checks that the number of translations grows with the number of
// different clusters, not with the number of proxies.
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
	if got, want := made(), uint64(outboundClusters+len(builtinNames(sidecars(t, m, 1)[0]))); got != want {
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

// TestEqualBytes checks that two Generators, and the same mesh received in another order, yield
// equal bytes.
func TestEqualBytes(t *testing.T) {
	documents := strings.Split(threeServices, "---")
	slices.Reverse(documents)
	// Creation times follow the order of the text; nothing here competes, so they make no
	// difference.
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

// TestAccountsOfEndpoints: clusters depend on endpoints only where proxies check whose they are,
// and then on that alone.
func TestAccountsOfEndpoints(t *testing.T) {
	const mutual = threeServices + "---\nkind: DestinationRule\nmetadata: {name: all}\nspec: {host: '*.example.com', trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}\n"
	account := func(address, account string) string {
		return strings.Replace(mutual, "{address: 10.0.1.1}", "{address: "+address+", serviceAccount: "+account+"}", 1)
	}
	m := fixture.New(t, []byte(account("10.0.1.1", "one")), nil)
	g := NewGenerator()
	with, without := fixture.Proxy(t, []byte("certificate: [chain, key, roots]")), fixture.Proxy(t, nil)
	for _, tc := range []struct {
		name, config         string
		touched, withoutCert bool
		updated              int
	}{
		{"another endpoint of the account", account("10.0.1.2", "one"), false, false, 0},
		{"another account", account("10.0.1.2", "two"), true, false, 1},
		{"another rule", strings.Replace(account("10.0.1.2", "two"), "ISTIO_MUTUAL", "DISABLE", 1), true, true, 1},
	} {
		old := m.View(with)
		s, d := m.Apply(t, tc.config)
		if got := Touched(old, s, d); got != tc.touched {
			t.Errorf("%s: touched %v, want %v", tc.name, got, tc.touched)
		}
		if got := Touched(m.View(without), s, d); got != tc.withoutCert {
			t.Errorf("%s: proxies without a certificate are touched %v, want %v", tc.name, got, tc.withoutCert)
		}
		diff, ok := g.OutboundSince(old, m.View(with), d)
		if whole := resource.Compare(
			setOf(t, g.Outbound(old)),
			setOf(t, g.Outbound(m.View(with))),
		); !ok || len(whole.Updated) != tc.updated || !covers(diff.Updated, whole.Updated) {
			t.Errorf("%s: %d clusters are reported as changed, want %d, of which %d differ",
				tc.name, len(diff.Updated), tc.updated, len(whole.Updated))
		}
	}
}

func setOf(t *testing.T, list []*resource.Resource) *resource.Set {
	t.Helper()
	s, err := resource.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func covers(list, want []*resource.Resource) bool {
	return !slices.ContainsFunc(want, func(r *resource.Resource) bool { return !slices.Contains(list, r) })
}

// TestResolvedTouched checks which changes have the clusters of resolved services generated again:
// changes of services with a resolved host, before or after the change, of DestinationRules that may
// apply to one, and of objects of other kinds.
func TestResolvedTouched(t *testing.T) {
	t.Parallel()
	entry := func(name, resolution, port string) string {
		return fmt.Sprintf("kind: ServiceEntry\nmetadata: {name: %s}\nspec: {hosts: [%s.example.com], resolution: %s, "+
			"ports: [{number: %s, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.1}]}\n", name, name, resolution, port)
	}
	rule := func(host string) string {
		return fmt.Sprintf("kind: DestinationRule\nmetadata: {name: new}\nspec: {host: %q, subsets: [{name: v2}]}\n", host)
	}
	sidecar := func(hosts string) string {
		return fmt.Sprintf("kind: Sidecar\nmetadata: {name: default}\nspec: {egress: [{hosts: [%q]}]}\n", hosts)
	}
	for _, tc := range []struct {
		text    string
		deleted bool
		want    bool
	}{
		{text: entry("new", "STATIC", "80")},
		{text: entry("b", "STATIC", "81")},
		{text: entry("b", "STATIC", "80"), deleted: true},
		{text: entry("new", "DNS", "80"), want: true},
		{text: entry("new", "DNS_ROUND_ROBIN", "80"), want: true},
		{text: entry("b", "DNS", "80"), want: true},
		{text: entry("c", "DNS", "81"), want: true},
		{text: entry("c", "STATIC", "80"), want: true},
		{text: entry("c", "DNS", "80"), deleted: true, want: true},
		{text: rule("b.example.com")},
		{text: rule("c.example.com"), want: true},
		{text: rule("*.example.com"), want: true},
		{text: sidecar("./*"), want: true},
	} {
		m := fixture.New(t, []byte(threeServices+"---\n"+sidecar("*/*")), nil)
		v := m.View(fixture.Proxy(t, []byte("{namespace: default}")))
		change := m.Apply
		if tc.deleted {
			change = m.Delete
		}
		s, d := change(t, tc.text)
		if got := ResolvedTouched(v, s, d); got != tc.want {
			t.Errorf("after a change (deleted: %t) of\n%sResolvedTouched returns %t, want %t", tc.deleted, tc.text, got, tc.want)
		}
	}
}
