package patch

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. The mesh is that of testdata/mesh.yaml with the objects of
// config.yaml; proxy.yaml and node.yaml (version and metadata) describe the proxy. "changes" is the
// difference that the EnvoyFilters make in the proxy's resources, "problems" are the reported
// Problems.
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		w := worldOf(t, c)
		c.Compare(t, "changes", w.changes())
		c.Compare(t, "problems", w.problems())
	})
}

// TestEnvoyLoadsGoldens loads all resources of every case into Envoy.
func TestEnvoyLoadsGoldens(t *testing.T) {
	envoy.RequireBinary(t)
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		c.AllowUnread()
		t.Parallel()
		clusters, listeners, routes, _ := worldOf(t, c).patched()
		envoy.Validate(t, envoy.FromResources(t, slices.Concat(clusters, listeners, routes)...))
	})
}

// world is a mesh with EnvoyFilters, and one proxy in it.
type world struct {
	t         testing.TB
	pass      *Pass
	clusters  *cluster.Generator
	listeners *listener.Generator
	routes    *route.Generator
	mesh      *fixture.Mesh
	proxy     *mesh.Proxy
	metadata  map[string]string
}

func newWorld(t testing.TB, text, meshConfig, proxy, node []byte) *world {
	t.Helper()
	base, err := os.ReadFile("testdata/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, pass: New(), clusters: cluster.NewGenerator(), listeners: listener.NewGenerator(), routes: route.NewGenerator(),
		mesh:  fixture.New(t, bytes.Join([][]byte{base, text}, []byte("\n---\n")), meshConfig),
		proxy: fixture.Proxy(t, proxy),
	}
	var says struct {
		Version  string            `json:"version"`
		Metadata map[string]string `json:"metadata"`
	}
	if err := yaml.UnmarshalStrict(node, &says); err != nil {
		t.Fatal(err)
	}
	w.proxy.Metadata.IstioVersion, w.metadata = says.Version, says.Metadata
	return w
}

func worldOf(t testing.TB, c *golden.Case) *world {
	t.Helper()
	return newWorld(t, c.Input("config.yaml"), c.Input("mesh.yaml"), c.Input("proxy.yaml"), c.Input("node.yaml"))
}

func (w *world) view() *view.View { return w.mesh.View(w.proxy) }

func (w *world) names() snapshot.PatchNames {
	s := w.mesh.Snapshot()
	return s.PatchNames(snapshot.ProxyAttributes{
		Type: w.proxy.Type, Namespace: w.proxy.Namespace, Labels: view.WorkloadLabels(s, w.proxy),
		Version: w.proxy.Metadata.IstioVersion, Metadata: w.metadata,
	})
}

func (w *world) generated() Generated {
	v := w.view()
	return Generated{
		Clusters: w.clusters.All(v), Listeners: w.listeners.All(v),
		Route: func(name string) *resource.Resource { return w.routes.Named(v, name) },
	}
}

// patched returns all resources of the proxy: the routes that its listeners request, and the
// extensions that any patch defines.
func (w *world) patched() (clusters, listeners, routes, extensions []*resource.Resource) {
	v, names, g := w.view(), w.names(), w.generated()
	clusters = append(w.pass.Clusters(v, names.Clusters, g.Clusters),
		w.pass.AddedClusters(v, names.Clusters, func() []*resource.Resource { return g.Clusters })...)
	listeners = append(w.pass.Listeners(v, names.Listeners, g.Listeners),
		w.pass.AddedListeners(v, names.Listeners, func() []*resource.Resource { return g.Listeners })...)
	for _, n := range routeNames(listeners) {
		if r := w.pass.Routes(v, names.Routes, g.Route(n)); r != nil {
			routes = append(routes, r)
		}
	}
	for _, e := range v.Snapshot.EnvoyPatches(names.Extensions) {
		name := config.Spec[*networking.EnvoyFilter](e.Filter).GetConfigPatches()[e.Index].GetPatch().GetValue().GetFields()["name"].GetStringValue()
		if r := w.pass.Extension(v, names.Extensions, name); r != nil && !slices.Contains(extensions, r) {
			extensions = append(extensions, r)
		}
	}
	return clusters, listeners, routes, extensions
}

// changes returns the difference from the resources of a mesh without EnvoyFilters.
func (w *world) changes() []byte {
	var out bytes.Buffer
	clusters, listeners, routes, extensions := w.patched()
	g := w.generated()
	out.Write(w.differences(g.Clusters, clusters))
	out.Write(w.differences(g.Listeners, listeners))
	var was []*resource.Resource
	for _, n := range routeNames(listeners) {
		if r := g.Route(n); r != nil {
			was = append(was, r)
		}
	}
	out.Write(w.differences(was, routes))
	out.Write(w.differences(nil, extensions))
	return out.Bytes()
}

func (w *world) differences(before, after []*resource.Resource) []byte {
	w.t.Helper()
	index := func(list []*resource.Resource) *resource.Set {
		s, err := resource.NewSet(list)
		if err != nil {
			w.t.Error(err)
		}
		return s
	}
	a, b := index(before), index(after)
	d := resource.Compare(a, b)
	var out bytes.Buffer
	for _, name := range d.Removed {
		out.WriteString("- " + api.ShortType(a.Get(name).TypeURL) + " " + name + "\n")
	}
	for _, r := range d.Updated {
		var was []byte
		if old := a.Get(r.Name); old != nil {
			was = golden.Resources(w.t, []*resource.Resource{old})
		}
		what := api.ShortType(r.TypeURL) + " " + r.Name
		text := string(diff.Diff("generated", was, "patched", golden.Resources(w.t, []*resource.Resource{r})))
		if _, hunks, ok := strings.Cut(text, "+++ patched\n"); ok {
			text = hunks
		}
		out.WriteString("* " + what + "\n" + hunk.ReplaceAllString(text, "@@"))
	}
	return out.Bytes()
}

// hunk is where in a resource a difference is: of no interest, and other with each change of what
// is generated.
var hunk = regexp.MustCompile(`(?m)^@@ .* @@$`)

func (w *world) problems() []byte {
	var list []config.Problem
	for _, c := range w.mesh.Snapshot().Configs(api.EnvoyFilter) {
		for _, p := range Check(config.Spec[*networking.EnvoyFilter](c)) {
			p.Key = c.Key
			list = append(list, p)
		}
	}
	list = append(list, w.pass.Problems(w.view(), w.names(), w.generated())...)
	var out strings.Builder
	for _, p := range list {
		out.WriteString(string(p.Severity) + ": " + p.String() + "\n")
	}
	return []byte(out.String())
}
