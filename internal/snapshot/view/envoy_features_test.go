package view_test

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestLacks: the Envoy version and extensions that a proxy reports decide which features it lacks.
// If it does not report them, the current version is assumed.
func TestLacks(t *testing.T) {
	s := fixture.New(t, nil, nil).Snapshot()
	names := []string{"envoy.access_loggers.stats", "envoy.filters.http.filter_chain"}
	minor := func(n uint32) mesh.EnvoyVersion { return mesh.EnvoyVersion{Major: 1, Minor: n, Patch: 2} }
	const (
		before38 = view.DisabledContextPropagation | view.SelectedHostKey
		before37 = before38 | view.TransportSocketMatcher | view.FormattedSpanTags | view.OpenTelemetryLogService
	)
	for name, tc := range map[string]struct {
		version    mesh.EnvoyVersion
		extensions []string
		want       view.EnvoyFeatures
		inside     bool
	}{
		"nothing stated":       {},
		"1.40":                 {version: minor(40), extensions: names},
		"1.39":                 {version: minor(39), extensions: names},
		"newer than any known": {version: minor(55), extensions: names},
		"1.38":                 {version: minor(38), extensions: names[:1], inside: true, want: view.BoundedStats | view.RetryBudgetInterval},
		"1.37": {version: minor(37), extensions: names[:1], inside: true,
			want: view.BoundedStats | view.RetryBudgetInterval | before38},
		"1.36": {version: minor(36), extensions: []string{}, inside: true,
			want: view.BoundedStats | view.RetryBudgetInterval | before37},
		"1.36 without extensions": {version: minor(36), inside: true,
			want: view.BoundedStats | view.RetryBudgetInterval | before37},
		"current, built without the logger": {version: minor(40), extensions: names[1:], want: view.BoundedStats},
		"extensions alone":                  {extensions: names[:1], inside: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := fixture.Proxy(t, nil)
			p.EnvoyVersion, p.Extensions = tc.version, tc.extensions
			k := view.KeyFor(s, p)
			if k.MissingFeatures != tc.want || k.PoliciesInside != tc.inside {
				t.Errorf("lacks %b, want %b; policies inside %t, want %t", k.MissingFeatures, tc.want, k.PoliciesInside, tc.inside)
			}
		})
	}
}

// plugin is a Wasm plugin of the proxies with the label app: web.
const plugin = `
kind: WasmPlugin
metadata: {name: plugin}
spec: {selector: {matchLabels: {app: web}}, url: example.com/a:v1}
`

// TestLacksWasmRuntime: an Envoy of any version lacks a runtime for modules if its extensions are
// reported and do not include one. That makes a class only where a plugin applies.
func TestLacksWasmRuntime(t *testing.T) {
	s := fixture.New(t, []byte(plugin), nil).Snapshot()
	for name, tc := range map[string]struct {
		app        string
		extensions []string
		want       bool
	}{
		"nothing stated":    {app: "web"},
		"with a runtime":    {app: "web", extensions: []string{"envoy.wasm.runtime.null", "envoy.wasm.runtime.v8"}},
		"without a runtime": {app: "web", extensions: []string{"envoy.wasm.runtime.null"}, want: true},
		"without a plugin":  {app: "db", extensions: []string{"envoy.wasm.runtime.null"}},
	} {
		p := fixture.Proxy(t, nil)
		p.Labels, p.Extensions = map[string]string{"app": tc.app}, tc.extensions
		if got := view.KeyFor(s, p).MissingFeatures.Has(view.WasmRuntime); got != tc.want {
			t.Errorf("%s: lacks the runtime %t, want %t", name, got, tc.want)
		}
	}
}

// TestVersionsShareClasses: proxies of the five supported versions are of four classes, and patch
// releases make none. A gRPC application is of one, whatever it states. The set costs a Key one
// word at most.
func TestVersionsShareClasses(t *testing.T) {
	s := fixture.New(t, nil, nil).Snapshot()
	classes, applications := map[view.Key]bool{}, map[view.Key]bool{}
	for n := uint32(view.OldestEnvoy); n <= 40; n++ {
		for patch := range uint32(5) {
			p := fixture.Proxy(t, nil)
			p.EnvoyVersion = mesh.EnvoyVersion{Major: 1, Minor: n, Patch: patch}
			classes[view.KeyFor(s, p)] = true
			p.Metadata.Generator = "grpc"
			k := view.KeyFor(s, p)
			k.PoliciesInside = false
			applications[k] = true
		}
	}
	if len(classes) != 4 || len(applications) != 1 {
		t.Errorf("%d classes of sidecars, want 4; %d of applications, want 1", len(classes), len(applications))
	}
	if size := unsafe.Sizeof(view.Key{}.MissingFeatures); size != 2 {
		t.Errorf("the set has %d bytes", size)
	}
}

// TestFeaturesArePartOfResources: each feature that a Key may lack concerns clusters or listeners,
// or it would split classes for nothing.
func TestFeaturesArePartOfResources(t *testing.T) {
	features := []view.EnvoyFeatures{
		view.BoundedStats, view.TransportSocketMatcher, view.RetryBudgetInterval, view.FormattedSpanTags,
		view.DisabledContextPropagation, view.OpenTelemetryLogService, view.SelectedHostKey, view.WasmRuntime,
	}
	p := fixture.Proxy(t, []byte("{labels: {app: web}, extensions: [none]}"))
	p.EnvoyVersion = mesh.EnvoyVersion{Major: 1, Minor: view.OldestEnvoy}
	oldest := view.KeyFor(fixture.New(t, []byte(plugin), nil).Snapshot(), p).MissingFeatures
	if i := slices.IndexFunc(features, func(f view.EnvoyFeatures) bool {
		return (view.ClusterFeatures|view.ListenerFeatures)&f == 0 || !oldest.Has(f)
	}); i >= 0 {
		t.Errorf("feature %b belongs to no resource, or every supported Envoy has it", features[i])
	}
}

// TestLackingEnvoys: messages name the version, the extension, or both.
func TestLackingEnvoys(t *testing.T) {
	for f, want := range map[view.EnvoyFeatures]string{
		view.SelectedHostKey: "an Envoy before 1.38",
		view.WasmRuntime:     "an Envoy built without envoy.wasm.runtime.v8",
		view.BoundedStats:    "an Envoy before 1.39 or built without envoy.access_loggers.stats",
	} {
		if got := f.LackingEnvoys(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// BenchmarkKeyFor shows that looking features up allocates nothing: the two Keys cost the same
// allocations.
func BenchmarkKeyFor(b *testing.B) {
	s := fixture.New(b, nil, nil).Snapshot()
	for name, version := range map[string]mesh.EnvoyVersion{"not stated": {}, "1.36": {Major: 1, Minor: 36, Patch: 4}} {
		b.Run(name, func(b *testing.B) {
			p := fixture.Proxy(b, nil)
			p.EnvoyVersion = version
			p.Extensions = []string{"envoy.access_loggers.stats", "envoy.filters.http.filter_chain"}
			b.ReportAllocs()
			for b.Loop() {
				view.KeyFor(s, p)
			}
		})
	}
}
