package feed

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	mcp "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

func TestTypes(t *testing.T) {
	urls := newTypes().URLs()
	for _, want := range []string{
		"core/v1alpha1/MeshConfig",
		"networking.istio.io/v1/ServiceEntry", "networking.istio.io/v1beta1/ServiceEntry", "networking.istio.io/v1alpha3/ServiceEntry",
		"networking.istio.io/v1alpha3/EnvoyFilter", "telemetry.istio.io/v1/Telemetry", "telemetry.istio.io/v1alpha1/Telemetry",
		"security.istio.io/v1beta1/AuthorizationPolicy", "extensions.istio.io/v1alpha1/WasmPlugin",
	} {
		if !slices.Contains(urls, want) {
			t.Errorf("%s is not served", want)
		}
	}
	if slices.Contains(urls, "/v1/Secret") || slices.Contains(urls, "/v1/Pod") {
		t.Errorf("kinds of Kubernetes are served: %v", urls)
	}
}

func set(w *stream.ResourceSnapshot, typeURL string) *resource.Set { return w.Groups(typeURL)[0].Set() }

func TestObjectsAreEncodedOnce(t *testing.T) {
	l := newLibrary(newTypes(), slog.New(slog.DiscardHandler))
	b := snapshot.NewBuilder(snapshot.Options{})
	list := objects(t, everyKind)
	s, _ := b.Apply(upserts(list...)...)
	first := l.resourcesOf(s)
	if l.encoded != len(list) || len(list) != len(kinds()) {
		t.Fatalf("%d objects encoded, of %d of %d kinds", l.encoded, len(list), len(kinds()))
	}
	for _, k := range kinds() {
		for _, url := range typeURLs(k) {
			if n := set(first, url).Len(); n != 1 {
				t.Errorf("%s has %d objects, want 1", url, n)
			}
		}
	}

	// A change without config objects, and the same objects again.
	s, _ = b.Apply(
		mesh.Event{
			Source:  "test",
			Service: mesh.Service{ServiceKey: mesh.ServiceKey{Namespace: "ns", Host: "h"}}.Sealed(),
		},
	)
	if l.resourcesOf(s) != first {
		t.Error("got a new ResourceSnapshot although no object changed, want the previous one")
	}
	s, _ = b.Apply(upserts(objects(t, everyKind)...)...)
	if l.resourcesOf(s) != first || l.encoded != len(list) {
		t.Errorf("equal objects were encoded again: %d encodings", l.encoded)
	}

	changed := *list[1]
	changed.Hash++
	s, _ = b.Apply(upserts(&changed)...)
	second := l.resourcesOf(s)
	if l.encoded != len(list)+1 {
		t.Errorf("%d objects encoded after one changed, want one more than %d", l.encoded, len(list))
	}
	const rules, services = "networking.istio.io/v1/DestinationRule", "networking.istio.io/v1/VirtualService"
	if set(first, rules) == set(second, rules) || set(first, services) != set(second, services) {
		t.Error("want a new set for the changed kind only")
	}

	s, _ = b.Apply(mesh.Event{Op: mesh.Delete, Source: "test", Config: &changed})
	if n := set(l.resourcesOf(s), rules).Len(); n != 0 {
		t.Errorf("got %d rules after the only one was deleted, want 0", n)
	}
}

// TestVersionsDependOnContentOnly checks that two replicas that received the same objects in
// different orders serve the same versions.
func TestVersionsDependOnContentOnly(t *testing.T) {
	versions := func(list []*config.Config) map[string]string {
		m := map[string]string{}
		s, _ := snapshot.NewBuilder(snapshot.Options{}).Apply(upserts(list...)...)
		w := newLibrary(newTypes(), slog.New(slog.DiscardHandler)).resourcesOf(s)
		for _, url := range newTypes().URLs() {
			m[url] = set(w, url).Version()
		}
		return m
	}
	list := objects(t, everyKind)
	again := objects(t, everyKind)
	slices.Reverse(again)
	for i, c := range again {
		other := *c
		other.ResourceVersion, other.Generation, other.Origin = fmt.Sprint(i), 7, "elsewhere"
		again[i] = &other
	}
	if diff := cmp.Diff(versions(list), versions(again)); diff != "" {
		t.Errorf("(-one +other):\n%s", diff)
	}
}

func TestMetadata(t *testing.T) {
	r, err := encodeObject(objects(t, everyKind)[0])
	if err != nil {
		t.Fatal(err)
	}
	var m mcp.Resource
	if err := proto.Unmarshal(r.Body, &m); err != nil {
		t.Fatal(err)
	}
	if r.Name != "ns/vs" || m.Metadata.Name != "ns/vs" || m.Metadata.Labels["team"] != "a" ||
		m.Metadata.CreateTime.AsTime().Year() != 2024 {
		t.Errorf("resource %q: metadata %v", r.Name, m.Metadata)
	}
	if diff := cmp.Diff(map[string]string{"note": "b"}, m.Metadata.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if m.Body.TypeUrl != "type.googleapis.com/istio.networking.v1alpha3.VirtualService" {
		t.Errorf("body is a %s", m.Body.TypeUrl)
	}
}

func TestMeshConfigIsServedWithoutItsSources(t *testing.T) {
	settings := mesh.DefaultMeshConfig()
	settings.TrustDomain = "example.com"
	settings.ConfigSources = []*meshconfig.ConfigSource{{Address: "xds://upstream:15010"}}
	s, _ := snapshot.NewBuilder(snapshot.Options{}).
		Apply(mesh.Event{Source: "test", Settings: &mesh.Settings{Mesh: settings}})
	list := set(newLibrary(newTypes(), slog.New(slog.DiscardHandler)).resourcesOf(s), meshConfigType).List()
	if len(list) != 1 || list[0].TypeURL != meshType {
		t.Fatalf("resources %v", list)
	}
	var m meshconfig.MeshConfig
	if err := proto.Unmarshal(list[0].Body, &m); err != nil {
		t.Fatal(err)
	}
	if m.TrustDomain != "example.com" || len(m.ConfigSources) > 0 {
		t.Errorf("trust domain %q, sources %v", m.TrustDomain, m.ConfigSources)
	}
	if len(settings.ConfigSources) != 1 {
		t.Error("the mesh config of the snapshot was modified")
	}
}

// BenchmarkOneOfMany measures a change of one of 4,000 objects of a kind.
func BenchmarkOneOfMany(b *testing.B) {
	var list []*config.Config
	for i := range 4000 {
		list = append(list, objects(b, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: se-%d, namespace: ns}
spec: {hosts: [a-%d.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`, i, i))...)
	}
	builder := snapshot.NewBuilder(snapshot.Options{})
	s, _ := builder.Apply(upserts(list...)...)
	l := newLibrary(newTypes(), slog.New(slog.DiscardHandler))
	l.resourcesOf(s)
	changed := *list[2000]
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		changed.Hash++
		c := changed
		s, _ := builder.Apply(upserts(&c)...)
		b.StartTimer()
		l.resourcesOf(s)
	}
}
