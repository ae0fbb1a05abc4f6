package patch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const poisons = "testdata/poison/*.yaml"

// TestPoisonIsRefused sends one running Envoy the resources of a sidecar, then the same with each
// EnvoyFilter of testdata/poison, and then the good ones again. The control plane cannot know that
// Envoy rejects these filters, so other tests use them. The first line of a file describes it; the
// second begins with "# refused: " and contains part of Envoy's error.
func TestPoisonIsRefused(t *testing.T) {
	files, err := filepath.Glob(poisons)
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files %s (%v): they are too few to show anything", len(files), poisons, err)
	}
	s := startSubject(t)
	good := allOf(newWorld(t, nil, nil, nil, nil))
	if refused := s.change(nil, good); len(refused) > 0 {
		t.Fatalf("the good resources are rejected: %q", refused)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			s.t = t
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			bad := allOf(poisonedWorld(t, text))
			checkRefusal(t, text, s.change(good, bad))
			if refused := s.change(bad, good); len(refused) > 0 {
				t.Errorf("the good resources are rejected afterwards: %q", refused)
			}
		})
	}
}

func checkRefusal(t *testing.T, text []byte, refused []string) {
	t.Helper()
	want := ""
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "# refused: "); ok {
			want = strings.TrimSpace(rest)
		}
	}
	if want == "" || !slices.ContainsFunc(refused, func(r string) bool { return strings.Contains(r, want) }) {
		t.Errorf("Envoy's error = %q, want a rejection with %q", refused, want)
	}
}

// poisonedWorld makes the mesh with an EnvoyFilter in it, which must be in force without a word of
// doubt.
func poisonedWorld(t *testing.T, text []byte) *world {
	t.Helper()
	objects, err := fixture.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range objects {
		for _, p := range config.Validate(c) {
			t.Errorf("validation: %v", p)
		}
	}
	w := newWorld(t, text, nil, nil, nil)
	if found := w.problems(); len(found) > 0 {
		t.Errorf("it is known to be wrong:\n%s", found)
	}
	return w
}

// pushOrder is the types in the order in which they are sent.
func pushOrder() []string {
	return []string{api.ClusterType, api.ListenerType, api.RouteType, api.ExtensionType}
}

func allOf(w *world) map[string]*resource.Set {
	w.t.Helper()
	sets := map[string]*resource.Set{}
	clusters, listeners, routes, extensions := w.patched()
	for typeURL, list := range map[string][]*resource.Resource{
		api.ClusterType: clusters, api.ListenerType: listeners, api.RouteType: routes, api.ExtensionType: extensions,
	} {
		set, err := resource.NewSet(list)
		if err != nil {
			w.t.Fatal(err)
		}
		sets[typeURL] = set
	}
	return sets
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}
