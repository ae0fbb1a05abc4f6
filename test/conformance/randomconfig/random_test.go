package randomconfig

import (
	_ "embed"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/random"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// Flags of the test binary, which must exist before the testing package parses them.
var (
	meshes = flag.Int("meshes", longtest.Rounds(10, 50), "how many meshes to make")
	seed   = flag.Uint64("seed", 1, "of the first mesh; the next one has the next")
)

// each is how many random objects a mesh has.
const each = 45

//go:embed around.yaml
var around []byte

func TestEnvoyAcceptsValidRandomConfig(t *testing.T) {
	binary := envoy.RequireBinary(t)
	tally := newTally()
	for i := range *meshes {
		objects := validObjects(t, *seed+uint64(i))
		tally.add(objects)
		shaped := map[config.Key]bool{}
		for _, proxy := range proxies() {
			refused := func(objects []*config.Config) error {
				return envoy.Refusal(t.Context(), binary, t.TempDir(), load(t, objects, proxy, shaped))
			}
			if refused(objects) != nil {
				few := smallest(objects, func(list []*config.Config) bool { return refused(list) != nil })
				t.Fatalf("seed %d, proxy %s: of these objects\n%s\n%v", *seed+uint64(i), proxy, text(few), refused(few))
			}
		}
		tally.shaped(objects, shaped)
	}
	tally.report(t)
}

// FuzzAnyConfig sends objects that were not validated through everything that reads them.
// They may have no effect, but must not cause a panic.
func FuzzAnyConfig(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		source := random.New(seed, words())
		var objects []*config.Config
		for i := range each {
			kind := random.Pick(source, kinds(seed))
			info, _ := api.Info(kind)
			spec := info.NewSpec()
			source.Fill(spec)
			objects = append(objects, object(t, source, kind, i, spec))
		}
		for _, o := range objects {
			config.Validate(o)
		}
		for _, proxy := range proxies() {
			resources(t, objects, proxy)
		}
	})
}

// proxies are the proxies of each mesh.
func proxies() []string {
	return []string{
		"{labels: {app: a}, addresses: [10.9.9.9], name: a-1}",
		"{labels: {app: a}, addresses: [10.9.9.9], name: a-1, interception: NONE}",
		"{type: router, labels: {istio: ingressgateway}, addresses: [10.9.9.12], name: gateway-1}",
	}
}

// validObjects generates objects and removes the fields that validation rejects.
func validObjects(t *testing.T, seed uint64) []*config.Config {
	t.Helper()
	source := random.New(seed, words())
	var list []*config.Config
	for i := range each {
		kind := random.Pick(source, kinds(seed))
		info, _ := api.Info(kind)
		spec := info.NewSpec()
		source.Fill(spec)
		var made *config.Config
		wrong := func() []string {
			made = object(t, source, kind, i, spec)
			return random.InvalidFields(made)
		}
		if source.RepairMessage(spec, wrong) {
			list = append(list, made)
		}
	}
	return list
}

// object makes an object of a spec as it is now.
func object(t *testing.T, source *random.Source, kind api.Kind, i int, spec proto.Message) *config.Config {
	t.Helper()
	namespaces := []string{"default", "default", "default", "default", "other"}
	o, err := config.New(config.Meta{
		Key:     config.Key{Kind: kind, Namespace: random.Pick(source, namespaces), Name: fmt.Sprintf("random-%d", i)},
		Created: time.Unix(int64(i), 0),
	}, proto.Clone(spec))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// load returns all that a proxy of a mesh with the objects is sent, and notes what shaped it.
func load(t *testing.T, objects []*config.Config, proxy string, shaped map[config.Key]bool) envoy.Config {
	t.Helper()
	list := resources(t, objects, proxy)
	for _, r := range list {
		for _, k := range r.From {
			shaped[k] = true
		}
	}
	return xdsdump.ConfigOf(t, list)
}

// resources returns all resources of a proxy. It also runs everything else that reads the mesh,
// which must not panic.
func resources(t *testing.T, objects []*config.Config, proxy string) []*resource.Resource {
	t.Helper()
	m := fixture.New(t, slices.Concat(around, entries()), nil)
	s, _ := m.Send(fixture.Events(mesh.Upsert, objects...)...)
	analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh}).Analyze(s)
	table := translate.NewTable(translate.Options{})
	v := m.View(fixture.Proxy(t, []byte(proxy)))
	table.Conflicts(v)
	return xdsdump.AllResources(t, table, v)
}

// entries are services outside the mesh: the first hosts in words, from "h0.example.com" on.
func entries() []byte {
	resolutions := []string{"DNS", "NONE", "STATIC, endpoints: [{address: 10.3.0.1, labels: {version: v1}}]", "DNS_ROUND_ROBIN"}
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, "\n---\n{kind: ServiceEntry, metadata: {name: h%d}, spec: {hosts: [h%d.example.com], resolution: %s, "+
			"ports: [{name: http, number: 80, protocol: HTTP}, {name: tcp, number: 9080, protocol: TCP}, {name: tls, number: 443, protocol: TLS}]}}",
			i, i, resolutions[i%len(resolutions)])
	}
	return []byte(b.String())
}

// smallest returns the fewest of the objects for which something still holds that holds for all of them.
func smallest(objects []*config.Config, holds func([]*config.Config) bool) []*config.Config {
	for size := len(objects) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(objects); {
			end := min(at+size, len(objects))
			rest := append(append([]*config.Config{}, objects[:at]...), objects[end:]...)
			if holds(rest) {
				objects = rest
			} else {
				at = end
			}
		}
	}
	return objects
}

func text(objects []*config.Config) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "%s %s\n", o.Key, protojson.Format(o.Spec.(proto.Message)))
	}
	return b.String()
}
