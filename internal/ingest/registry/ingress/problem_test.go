package ingress_test

import (
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestProblems: what leads nowhere is named, and the rest is as it would be without it.
func TestProblems(t *testing.T) {
	const paths = "      paths:\n"
	for _, c := range []struct{ old, new, want string }{
		{"  rules:\n", "  - {hosts: [x.example.com]}\n  rules:\n", "error Ingress/shop/web: spec.tls[1].secretName: is missing"},
		{"  rules:\n", "  rules:\n  - {host: x.example.com}\n", `error Ingress/shop/web: spec.rules[0].http: is missing, and there is no defaultBackend: no route is created for host "x.example.com"`},
		{paths, paths + "      - {path: /x, backend: {service: {name: gone, port: {name: http}}}}\n",
			`error Ingress/shop/web: spec.rules[0].http.paths[0].backend.service.port.name: Service "gone" has no port "http"`},
		{paths, paths + "      - {path: /x, backend: {service: {name: api, port: {name: grpc}}}}\n",
			`error Ingress/shop/web: spec.rules[0].http.paths[0].backend.service.port.name: Service "api" has no port "grpc"`},
		{paths, paths + "      - {path: /x, backend: {resource: {kind: Bucket, name: b}}}\n", "error Ingress/shop/web: spec.rules[0].http.paths[0].backend.service: is missing"},
		{"  rules:\n", "  defaultBackend: {resource: {kind: Bucket, name: b}}\n  rules:\n", "error Ingress/shop/web: spec.defaultBackend.service: is missing"},
		{"/only, backend", "/api, pathType: Exact, backend",
			"warning Ingress/shop/web: spec.rules[0].http.paths[4]: is never used: spec.rules[0].http.paths[2] is for the same path"},
	} {
		text := strings.Replace(webIngress, c.old, c.new, 1)
		if text == webIngress {
			t.Fatalf("no %q", c.old)
		}
		s, without := converted(t, objects(t, text, apiService)...), converted(t, objects(t, webIngress, apiService)...)
		if got := s.reasons(); !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("problems:\n%s\nwant %s", got, c.want)
		}
		if strings.Contains(c.want, "never used") {
			continue
		}
		if diff := gocmp.Diff(hashes(without), hashes(s)); diff != "" {
			t.Errorf("%s: valid parts differ: -want +got:\n%s", c.new, diff)
		}
	}
}

func hashes(s *state) map[string]uint64 {
	m := map[string]uint64{}
	for k, c := range s.made {
		m[k.String()] = c.Hash
	}
	return m
}

// TestHistory: after any sequence of events the emitted state depends only on the objects that
// exist.
func TestHistory(t *testing.T) {
	versions := []string{
		webIngress, strings.Replace(webIngress, "class: istio", "class: nginx", 1), strings.Replace(webIngress, "host: web", "host: more", 1),
		strings.Replace(webIngress, "  tls:", "  defaultBackend: {service: {name: rest, port: {name: http}}}\n  tls:", 1),
		moreIngress, strings.Replace(moreIngress, "2024-05-02", "2024-04-02", 1),
		strings.Replace(moreIngress, "  rules:", "  ingressClassName: mesh\n  tls: [{secretName: x}]\n  rules:", 1),
		strings.Replace(moreIngress, ", annotations: {kubernetes.io/ingress.class: istio}", "", 1),
		apiService, strings.Replace(apiService, "8080", "8081", 1), strings.Replace(apiService, "name: api,", "name: rest,", 1),
		meshClass, strings.Replace(meshClass, "istio.io", "nginx.org", 1),
	}
	var all mesh.Batch
	for _, v := range versions {
		all = append(all, objects(t, v)...)
	}
	modes := mesh.Batch{settings(t, ""), settings(t, "ingressControllerMode: DEFAULT"), settings(t, "ingressControllerMode: 'OFF'"), settings(t, "ingressSelector: x")}
	rapid.Check(t, func(t *rapid.T) {
		c, s := ingress.New(ingress.Options{}), newState()
		there, mode := map[string]mesh.Event{}, modes[0]
		for range rapid.IntRange(1, 10).Draw(t, "batches") {
			var batch mesh.Batch
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				if rapid.IntRange(0, 7).Draw(t, "settings") == 0 {
					mode = rapid.SampledFrom(modes).Draw(t, "mode")
					batch = append(batch, mode)
					continue
				}
				e := rapid.SampledFrom(all).Draw(t, "object")
				key := e.Config.Key.String()
				there[key] = e
				if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
					e.Op = mesh.Delete
					delete(there, key)
				}
				batch = append(batch, e)
			}
			s.apply(t, c.Convert(batch))
		}
		end := mesh.Batch{mode}
		for _, e := range there {
			end = append(end, e)
		}
		fresh := newState()
		fresh.apply(t, ingress.New(ingress.Options{}).Convert(end))
		if diff := gocmp.Diff(hashes(fresh), hashes(s)); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		if diff := gocmp.Diff(fresh.reasons(), s.reasons()); diff != "" {
			t.Fatalf("problems: -want +got:\n%s", diff)
		}
	})
}

// BenchmarkIngress is a change of one of 1,000 Ingresses.
func BenchmarkIngress(b *testing.B) {
	c := ingress.New(ingress.Options{})
	var versions mesh.Batch
	for i := range 1000 {
		text := strings.ReplaceAll(strings.Replace(webIngress, "name: web,", fmt.Sprintf("name: web-%d,", i), 1), "web.example.com", fmt.Sprintf("web-%d.example.com", i))
		batch := objects(b, text)
		c.Convert(batch)
		if i == 500 {
			versions = append(batch, objects(b, strings.Replace(text, "/old", "/new", 1))...)
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if out := c.Convert(versions[i%2 : i%2+1]); i > 1 && len(out) != 2 {
			b.Fatalf("%d events", len(out))
		}
	}
}
