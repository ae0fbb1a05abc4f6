package snapshot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestVirtualServicesFollowEdits compares the index after random changes with a newly built index,
// and checks that rows of unchanged objects are reused.
func TestVirtualServicesFollowEdits(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		b := NewBuilder(Options{})
		for range 60 {
			before := b.Current()
			var batch []mesh.Event
			touched := map[config.Key]bool{}
			for range 1 + random.IntN(4) {
				e := randomVirtualService(t, random)
				touched[e.Config.Key] = true
				batch = append(batch, e)
			}
			after, _ := b.Apply(batch...)
			want := newVirtualServices().rebuildIndex(after.Configs(api.VirtualService), after.Settings, after.Config)
			if diff := cmp.Diff(summaries(want.list), summaries(after.VirtualServices()), protocmp.Transform()); diff != "" {
				t.Fatalf("seed %d: rows (-made at once +made by changes):\n%s", seed, diff)
			}
			if diff := cmp.Diff(want.selectors, after.SourceSelectors()); diff != "" {
				t.Fatalf("seed %d: source selectors (-made at once +made by changes):\n%s", seed, diff)
			}
			for _, v := range before.VirtualServices() {
				concerned := touched[v.Config.Key] || slices.ContainsFunc(v.delegates, func(d delegate) bool { return touched[d.key] })
				if !concerned && !slices.Contains(after.VirtualServices(), v) {
					t.Fatalf("seed %d: the row of %s changed, and nothing happened to it or its delegates", seed, v.Config.Key)
				}
			}
		}
	}
}

// summary returns the compared fields of a row.
type summary struct {
	From   []config.Key
	Spec   *networking.VirtualService
	Faults []config.Problem
}

func summaries(list []*VirtualService) []summary {
	var out []summary
	for _, v := range list {
		out = append(out, summary{v.From, v.Spec, v.Faults})
	}
	return out
}

func randomVirtualService(t *testing.T, r *rand.Rand) mesh.Event {
	t.Helper()
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	spec := pick(
		`{hosts: [a], http: [{match: [{sourceLabels: {app: a}}], route: [{destination: {host: a}}]}]}`,
		`{hosts: [b], tcp: [{match: [{sourceLabels: {app: b}}], route: [{destination: {host: b}}]}]}`,
		`{hosts: [c], http: [{delegate: {name: a, namespace: x}}, {delegate: {name: b}}]}`,
		`{http: [{match: [{sourceLabels: {app: c}}], route: [{destination: {host: c}}]}]}`,
		`{exportTo: [.], http: [{route: [{destination: {host: d}}]}]}`,
		`{http: [{delegate: {name: a}}]}`,
	)
	c := object(t, api.VirtualService, pick("x", "y"), pick("a", "b", "c", "d"), r.IntN(3), parsed(t, new(networking.VirtualService), spec))
	if r.IntN(4) == 0 {
		return mesh.Event{Op: mesh.Delete, Config: c}
	}
	return upsert(c)
}

func BenchmarkVirtualServiceEdit(b *testing.B) {
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("%d-virtual-services", size), func(b *testing.B) {
			builder := NewBuilder(Options{})
			var batch []mesh.Event
			for i := range size {
				batch = append(batch, virtualService(b, fmt.Sprintf("x/%d", i), strings.ReplaceAll(root, "name: a", fmt.Sprintf("name: d%d", i%100))))
			}
			builder.Apply(batch...)
			edits := []mesh.Event{
				virtualService(b, "x/7", `{hosts: [a], http: [{route: [{destination: {host: b}}]}]}`),
				virtualService(b, "x/7", `{hosts: [a], http: [{route: [{destination: {host: c}}]}]}`),
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				builder.Apply(edits[i%2])
			}
		})
	}
}
