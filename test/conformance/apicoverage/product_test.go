package apicoverage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/listener"
	"github.com/meshpilot/meshpilot/internal/translate/nametable"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/route"
	"github.com/meshpilot/meshpilot/internal/translate/telemetry"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// products returns a copy of the output of each case, as far as its golden test compares it: the
// sections of outputs name the resources. Problems are not part of it, so a field that only has a
// Problem changes nothing.
func products() map[string]func(testing.TB, *Case) string {
	return map[string]func(testing.TB, *Case) string{
		"agent":          agentProduct,
		"authentication": authenticationProduct,
		"authorization":  authorizationProduct,
		"cluster":        clusterProduct,
		"endpoint":       endpointProduct,
		"listener":       listenerProduct,
		"nametable":      nameTableProduct,
		"patch":          patchProduct,
		"plugin":         pluginProduct,
		"route":          routeProduct,
		"telemetry":      telemetryProduct,
	}
}

// input returns the text of a section, nil if the case does not have it.
func (c *Case) input(section string) []byte {
	for _, f := range c.archive.Files {
		if f.Name == section {
			return f.Data
		}
	}
	return nil
}

// named returns the rest of the names of the sections that begin with a prefix.
func (c *Case) named(prefix string) []string {
	var list []string
	for _, f := range c.archive.Files {
		if rest, ok := strings.CutPrefix(f.Name, prefix); ok {
			list = append(list, rest)
		}
	}
	return list
}

// mesh returns the mesh of a case, as fixture.OfCase does. before are documents that the room adds to every case.
func (c *Case) mesh(t testing.TB, before []byte) *fixture.Mesh {
	t.Helper()
	text := bytes.Join([][]byte{before, c.input("config.yaml")}, []byte("\n---\n"))
	m := fixture.NewWith(t, fixture.Features(t, c.input), text, c.input("mesh.yaml"))
	if text := c.input("networks.yaml"); text != nil {
		networks, err := mesh.ParseMeshNetworks(text)
		if err != nil {
			t.Fatal(err)
		}
		m.Send(mesh.Event{Settings: &mesh.Settings{Networks: networks}})
	}
	var keys []mesh.KeySet
	if err := yaml.UnmarshalStrict(c.input("keys.yaml"), &keys); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		m.Send(mesh.Event{KeySet: &keys[i]})
	}
	return m
}

func (c *Case) view(t testing.TB) *view.View {
	t.Helper()
	return c.mesh(t, nil).View(fixture.Proxy(t, c.input("proxy.yaml")))
}

// bodies renders resources without the objects that they come from.
func bodies(list ...*resource.Resource) string {
	var b strings.Builder
	for _, r := range list {
		if r == nil {
			b.WriteString("none\n")
			continue
		}
		fmt.Fprintf(&b, "%s %s %x\n", r.TypeURL, r.Name, r.Body)
	}
	return b.String()
}

func messages[M proto.Message](t testing.TB, list []M) string {
	t.Helper()
	var b strings.Builder
	for _, m := range list {
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%x\n", body)
	}
	return b.String()
}

func byName(list []*resource.Resource, name string) *resource.Resource {
	i := slices.IndexFunc(list, func(r *resource.Resource) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return list[i]
}

func clusterProduct(t testing.TB, c *Case) string {
	all := cluster.NewGenerator().All(c.view(t))
	var b strings.Builder
	for _, name := range c.named("cluster ") {
		b.WriteString(bodies(byName(all, name)))
	}
	if c.input("names") != nil {
		for _, r := range all {
			b.WriteString(r.Name + "\n")
		}
	}
	return b.String()
}

func endpointProduct(t testing.TB, c *Case) string {
	g, v := endpoint.NewGenerator(), c.view(t)
	var b strings.Builder
	for _, name := range c.named("endpoints ") {
		b.WriteString(bodies(g.Named(v, name)))
	}
	return b.String()
}

func listenerProduct(t testing.TB, c *Case) string {
	g, v := listener.NewGenerator(), c.view(t)
	var b strings.Builder
	only := strings.Fields(string(c.input("only")))
	for _, s := range g.Plan(v) {
		outbound := slices.Contains(only, "outbound") && !s.Inbound && s.Name != "virtualOutbound"
		if len(only) == 0 || outbound || slices.Contains(only, s.Name) {
			b.WriteString(s.String())
		}
	}
	for _, name := range c.named("envoy ") {
		b.WriteString(bodies(byName(g.All(v), name)))
	}
	for _, name := range c.named("extension ") {
		b.WriteString(bodies(g.Policies(v, name), plugin.NewGenerator().Named(v, name), g.Extension(v, name)))
	}
	return b.String()
}

func nameTableProduct(t testing.TB, c *Case) string {
	return bodies(nametable.NewGenerator().All(c.view(t))...)
}

func routeProduct(t testing.TB, c *Case) string {
	g, v := route.NewGenerator(), c.view(t)
	names := c.named("route ")
	for line := range strings.Lines(string(c.input("calls"))) {
		names = append(names, strings.Fields(line)[0])
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		b.WriteString(bodies(g.Named(v, name)))
	}
	return b.String()
}

// patchProduct is all that the proxy is sent.
func patchProduct(t testing.TB, c *Case) string {
	base, err := os.ReadFile(filepath.Join(root, caseFolders()["patch"], "mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var node struct {
		Version  string            `json:"version"`
		Metadata map[string]string `json:"metadata"`
	}
	if err := yaml.UnmarshalStrict(c.input("node.yaml"), &node); err != nil {
		t.Fatal(err)
	}
	proxy := fixture.Proxy(t, c.input("proxy.yaml"))
	proxy.Metadata.IstioVersion, proxy.Metadata.Strings = node.Version, node.Metadata
	return bodies(xdsdump.AllResources(t, translate.NewTable(translate.Options{}), c.mesh(t, base).View(proxy))...)
}

func pluginProduct(t testing.TB, c *Case) string {
	g, v := plugin.NewGenerator(), c.view(t)
	var b strings.Builder
	for p := range plugin.Of(v).All {
		fmt.Fprint(&b, p.Object, p.Phase, p.Language, p.Connections)
		for side := plugin.Side(0); side < 3; side++ {
			fmt.Fprint(&b, " ", p.AppliesToSide(side))
			for _, port := range []uint32{0, 80, 8080} {
				fmt.Fprint(&b, " ", p.AppliesTo(side, port))
			}
		}
		b.WriteString("\n")
		if c.input("extensions") != nil {
			b.WriteString(bodies(g.Named(v, p.Name)))
		}
	}
	return b.String()
}

func telemetryProduct(t testing.TB, c *Case) string {
	made := telemetry.NewTable().For(c.view(t))
	var b strings.Builder
	for i, side := range []telemetry.Side{made.Client, made.Server} {
		if section := []string{"client", "server"}[i]; c.input(section) == nil {
			continue
		}
		fmt.Fprintln(&b, i, side.LogConnected, side.SamplesByRequestID)
		for _, logs := range [][]*accesslogv3.AccessLog{side.HTTPLogs, side.TCPLogs} {
			b.WriteString(messages(t, logs) + "\n")
		}
		if side.Tracing != nil {
			b.WriteString(messages(t, []*hcmv3.HttpConnectionManager_Tracing{side.Tracing}))
		}
	}
	if c.input("clusters") != nil {
		fmt.Fprintln(&b, made.Clusters)
	}
	return b.String()
}

func authorizationProduct(t testing.TB, c *Case) string {
	made := authorization.NewTable().For(c.view(t))
	out := messages(t, made.HTTP)
	if c.input("tcp") != nil {
		out += messages(t, made.TCP)
	}
	return out
}

func authenticationProduct(t testing.TB, c *Case) string {
	made := authentication.NewTable().For(c.view(t))
	out := messages(t, made.HTTP)
	if c.input("clusters") != nil {
		out += fmt.Sprintln(made.Clusters)
	}
	return out
}
