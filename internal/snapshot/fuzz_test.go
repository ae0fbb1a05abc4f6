package snapshot_test

import (
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// FuzzApply: objects that pass validation never make the Builder panic, and are in its snapshot the
// same way whether they come together, one by one or backwards; when they go nothing is left.
func FuzzApply(f *testing.F) {
	for _, s := range []string{
		"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a, namespace: n}\nspec: {hosts: [a], http: [{delegate: {name: b}}]}\n---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: b, namespace: n}\nspec: {http: [{route: [{destination: {host: c}}]}]}\n",
		"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a, namespace: n}\nspec: {host: '*.local', subsets: [{name: v1, labels: {v: '1'}}]}\n---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: b, namespace: n}\nspec: {host: '*.local', workloadSelector: {matchLabels: {a: b}}}\n",
		"apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: a, namespace: istio-system}\nspec: {mtls: {mode: STRICT}, selector: {matchLabels: {a: b}}, portLevelMtls: {80: {mode: DISABLE}}}\n",
		"apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: a, namespace: n}\nspec: {configPatches: [{applyTo: CLUSTER, match: {context: ANY}, patch: {operation: REMOVE}}]}\n",
		"apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: a, namespace: n}\nspec: {targetRefs: [{kind: Gateway, name: g, group: gateway.networking.k8s.io}]}\n---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: n}\nspec: {servers: [{port: {number: 80, name: h, protocol: HTTP}, hosts: ['*']}]}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, manifest []byte) {
		if len(manifest) > 8<<10 {
			return
		}
		var events []mesh.Event
		seen := map[string]bool{}
		for _, d := range decode.Manifest("fuzz.yaml", manifest) {
			if d.Config != nil && !seen[d.Config.Key.String()] {
				seen[d.Config.Key.String()] = true
				events = append(events, mesh.Event{Source: "fuzz", Config: d.Config})
			}
		}
		panics := 0
		r := recovery.New(recovery.Options{Count: func(string) { panics++ }})
		together, single, plain := builder(r), builder(r), builder(nil)
		a, _ := together.Apply(events...)
		for i := range events {
			single.Apply(events[len(events)-1-i])
		}
		plain.Apply(events...) // fails with the stack of a panic
		if panics > 0 {
			t.Fatalf("%d panics", panics)
		}
		for _, e := range events {
			if k := e.Config.Key; a.Config(k) == nil || single.Current().Config(k) != a.Config(k) {
				t.Errorf("%s is missing", k)
			}
		}
		if x, y := texts(a), texts(single.Current()); !slices.Equal(x, y) {
			t.Errorf("problems together %v, one by one %v", x, y)
		}
		for i := range events {
			events[i].Op = mesh.Delete
		}
		if s, _ := together.Apply(events...); len(s.Problems()) > 0 {
			t.Errorf("left are %v", s.Problems())
		}
	})
}

func builder(r *recovery.Recorder) *snapshot.Builder {
	return snapshot.NewBuilder(snapshot.Options{Cluster: "Kubernetes", Allocation: snapshot.DefaultAllocation(), Recovery: r})
}

func texts(s *snapshot.Snapshot) (list []string) {
	for _, p := range s.Problems() {
		list = append(list, p.String())
	}
	return list
}
