package gatewayapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// state is the result of all batches of a Converter.
type state struct {
	objects  map[config.Key]*config.Config
	services map[config.Key]*mesh.Service // by InferencePool and XBackend
	shards   map[config.Key]*mesh.Shard   // by XBackend
	problems map[string][]config.Problem
}

func newState() *state {
	return &state{map[config.Key]*config.Config{}, map[config.Key]*mesh.Service{}, map[config.Key]*mesh.Shard{}, map[string][]config.Problem{}}
}

// apply adds the events that the Converter created. It fails the test if a delete names an object
// that does not exist.
func (s *state) apply(t testing.TB, batch mesh.Batch) {
	t.Helper()
	for _, e := range batch {
		switch {
		case e.Source != "Gateway API":
		case e.Problems != nil && len(e.Problems.List) == 0:
			delete(s.problems, e.Problems.Scope)
		case e.Problems != nil:
			s.problems[e.Problems.Scope] = e.Problems.List
		case e.Service != nil && e.Op == mesh.Delete:
			delete(s.services, e.Service.From)
		case e.Service != nil:
			s.services[e.Service.From] = e.Service
		case e.Shard != nil && e.Op == mesh.Delete:
			delete(s.shards, e.Shard.Key.Object)
		case e.Shard != nil:
			s.shards[e.Shard.Key.Object] = e.Shard
		case e.Op == mesh.Delete:
			if s.objects[e.Config.Key] == nil {
				t.Errorf("%s is deleted, but does not exist", e.Config.Key)
			}
			delete(s.objects, e.Config.Key)
		default:
			s.objects[e.Config.Key] = e.Config
		}
	}
}

// text renders the objects, statuses and Problems.
func (s *state) text(t testing.TB, statuses *gatewayapi.Statuses) (objects, status, problems []byte) {
	t.Helper()
	var o, st, p bytes.Buffer
	for _, k := range slices.SortedFunc(maps.Keys(s.objects), config.Key.Compare) {
		c := s.objects[k]
		spec, err := json.Marshal(c.Spec)
		if m, ok := c.Spec.(proto.Message); ok {
			spec, err = protojson.Marshal(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		extension, err := json.Marshal(c.Extension)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&o, "# %s from %s\n%s", k, c.Extension.Source, yamlOf(t, spec))
		fmt.Fprintf(&o, "%s---\n", yamlOf(t, []byte(`{"extension":`+string(extension)+`}`)))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.services), config.Key.Compare) {
		service := *s.services[k]
		service.Hash = 0
		body, err := json.Marshal(service)
		if err != nil {
			t.Fatal(err)
		}
		var set map[string]any // without empty fields
		if err := json.Unmarshal(body, &set); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(set, func(_ string, v any) bool {
			return v == nil || v == "" || v == false || v == 0.0 || fmt.Sprint(v) == "map[]"
		})
		if body, err = json.Marshal(set); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&o, "# service of %s\n%s---\n", k, yamlOf(t, body))
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.shards), config.Key.Compare) {
		for _, e := range s.shards[k].Endpoints {
			fmt.Fprintf(&o, "# endpoint of %s: %s for port %s of %s\n---\n", k, e.HostPort(), e.ServicePort, s.shards[k].Service.Host)
		}
	}
	all := maps.Collect(statuses.All())
	for _, k := range slices.SortedFunc(maps.Keys(all), config.Key.Compare) {
		body, err := json.Marshal(all[k].Value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&st, "# %s\n", k)
		for line := range strings.Lines(string(yamlOf(t, body))) {
			if !strings.Contains(line, "lastTransitionTime: null") && !strings.Contains(line, "observedGeneration") {
				st.WriteString(line)
			}
		}
	}
	for _, scope := range slices.Sorted(maps.Keys(s.problems)) {
		for _, problem := range s.problems[scope] {
			fmt.Fprintf(&p, "%s: %s\n", problem.Severity, problem)
		}
	}
	return o.Bytes(), st.Bytes(), p.Bytes()
}

func yamlOf(t testing.TB, text []byte) []byte {
	t.Helper()
	out, err := yaml.JSONToYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func inputs(t testing.TB, text []byte) mesh.Batch {
	t.Helper()
	list, err := fixture.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	var batch mesh.Batch
	for _, c := range list {
		batch = append(batch, mesh.Event{Config: c})
	}
	return batch
}

// TestGolden converts the objects of each case, then in random orders with detours: the result
// depends only on the set of objects.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		o := gatewayapi.Options{Deploys: c.Has("deploys"), InferencePools: c.Has("pools"), ClusterSetHosts: c.Has("hosts")}
		for _, option := range []string{"deploys", "pools", "hosts"} {
			if c.Has(option) {
				c.Input(option)
			}
		}
		batch := inputs(t, c.Input("config.yaml"))
		converter, s := gatewayapi.New(o), newState()
		s.apply(t, converter.Convert(append(slices.Clone(batch), mesh.Event{Op: mesh.Synced})))
		objects, status, problems := s.text(t, converter.Statuses())
		c.Compare(t, "objects", objects)
		c.Compare(t, "status", status)
		c.Compare(t, "problems", problems)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		for range 8 {
			again, s := gatewayapi.New(o), newState()
			order := random.Perm(len(batch))
			for _, i := range order {
				s.apply(t, again.Convert(mesh.Batch{batch[i]}))
				if j := order[random.IntN(len(order))]; random.IntN(3) == 0 {
					s.apply(t, again.Convert(mesh.Batch{{Op: mesh.Delete, Config: batch[j].Config}}))
					s.apply(t, again.Convert(mesh.Batch{{Op: mesh.Delete, Config: batch[i].Config}}))
					s.apply(t, again.Convert(mesh.Batch{batch[i]}))
				}
			}
			s.apply(t, again.Convert(batch))
			o2, s2, p2 := s.text(t, again.Statuses())
			for _, x := range [][2][]byte{{objects, o2}, {status, s2}, {problems, p2}} {
				if diff := gocmp.Diff(string(x[0]), string(x[1])); diff != "" {
					t.Fatalf("the order of events matters (-first +other):\n%s", diff)
				}
			}
		}
		var deletes mesh.Batch
		for _, e := range batch {
			deletes = append(deletes, mesh.Event{Op: mesh.Delete, Config: e.Config})
		}
		s.apply(t, converter.Convert(deletes))
		if len(s.objects)+len(s.services)+len(s.shards)+len(s.problems)+converter.Statuses().Len()+converter.Deployments().Len() > 0 {
			t.Errorf("left are %v, %v, %d statuses, %d deployments", s.objects, s.problems, converter.Statuses().Len(), converter.Deployments().Len())
		}
	})
}

// TestChangeCost: an edited route of many converts that route alone.
func TestChangeCost(t *testing.T) {
	batch := inputs(t, []byte(manyRoutes(200)))
	c := gatewayapi.New(gatewayapi.Options{})
	c.Convert(append(batch, mesh.Event{Op: mesh.Synced}))
	edited := inputs(t, []byte(strings.Replace(oneRoute(7), "/seven", "/other", 1)))
	if out := c.Convert(edited); len(out) != 2 || out[1].Config.Key.Kind != api.VirtualService {
		t.Errorf("%d events follow from one edited route, want the route and its VirtualService", len(out))
	}
}

func oneRoute(i int) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r%[1]d}
spec:
  parentRefs: [{name: g}]
  hostnames: [h%[1]d.example.com]
  rules: [{matches: [{path: {value: /seven}}], backendRefs: [{name: web, port: 80}]}]
---`, i)
}

func manyRoutes(n int) string {
	var b strings.Builder
	b.WriteString(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
apiVersion: v1
metadata: {name: web}
spec: {ports: [{port: 80}]}
---`)
	for i := range n {
		b.WriteString(oneRoute(i))
	}
	return b.String()
}

// BenchmarkEditedRoute measures the conversion of one edited HTTPRoute of 2,000 on one Gateway.
func BenchmarkEditedRoute(b *testing.B) {
	c := gatewayapi.New(gatewayapi.Options{})
	c.Convert(append(inputs(b, []byte(manyRoutes(2000))), mesh.Event{Op: mesh.Synced}))
	versions := []mesh.Batch{
		inputs(b, []byte(strings.Replace(oneRoute(7), "/seven", "/other", 1))), inputs(b, []byte(oneRoute(7))),
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		c.Convert(versions[i%2])
		i++
	}
}
