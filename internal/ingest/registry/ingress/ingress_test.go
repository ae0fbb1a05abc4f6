package ingress_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// objects reads manifests, separated by "---", as upserts.
func objects(t testing.TB, manifests ...string) mesh.Batch {
	t.Helper()
	var batch mesh.Batch
	for _, doc := range strings.Split(strings.Join(manifests, "\n---\n"), "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		info, known := api.Info(api.Kind(head.Kind))
		if !known {
			t.Fatalf("unknown kind %q", head.Kind)
		}
		spec := info.NewObject()
		if err := yaml.UnmarshalStrict([]byte(doc), spec); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		c, err := config.New(config.Meta{
			Key:    config.Key{Kind: info.Kind, Namespace: spec.GetNamespace(), Name: spec.GetName()},
			Labels: spec.GetLabels(), Annotations: spec.GetAnnotations(), Created: spec.GetCreationTimestamp().Time,
		}, spec)
		if err != nil {
			t.Fatal(err)
		}
		batch = append(batch, mesh.Event{Config: c})
	}
	return batch
}

func gone(t testing.TB, manifest string) mesh.Event {
	t.Helper()
	return mesh.Event{Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: objects(t, manifest)[0].Config.Key}}}
}

// settings returns Settings in which Ingresses without a class belong to this control plane or to
// none.
func settings(t testing.TB, text string) mesh.Event {
	t.Helper()
	m, err := mesh.ParseMeshConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Event{Settings: &mesh.Settings{Mesh: m}}
}

// state accumulates the objects and problems that a Converter emits.
type state struct {
	made     map[config.Key]*config.Config
	problems map[string][]config.Problem
}

func newState() *state {
	return &state{map[config.Key]*config.Config{}, map[string][]config.Problem{}}
}

// apply adds the emitted events, and counts those about Gateways, VirtualServices and Problems.
func (s *state) apply(t interface{ Fatalf(string, ...any) }, said mesh.Batch) (events int) {
	for _, e := range said {
		switch {
		case e.Problems != nil:
			events++
			if s.problems[e.Problems.Scope] = e.Problems.List; len(e.Problems.List) == 0 {
				delete(s.problems, e.Problems.Scope)
			}
		case e.Config == nil || e.Config.Kind != api.Gateway && e.Config.Kind != api.VirtualService:
		case e.Op == mesh.Delete:
			events++
			if s.made[e.Config.Key] == nil {
				t.Fatalf("%s is deleted, but does not exist", e.Config.Key)
			}
			delete(s.made, e.Config.Key)
		default:
			events++
			if old := s.made[e.Config.Key]; old != nil && old.Hash == e.Config.Hash && old.Origin == e.Config.Origin {
				t.Fatalf("%s is emitted again unchanged", e.Config.Key)
			}
			s.made[e.Config.Key] = e.Config
		}
	}
	return events
}

func converted(t testing.TB, batch ...mesh.Event) *state {
	t.Helper()
	s := newState()
	s.apply(t, ingress.New(ingress.Options{}).Convert(batch))
	return s
}

// names returns "Kind/namespace/name" of the emitted objects, sorted.
func (s *state) names() []string {
	var list []string
	for k := range s.made {
		list = append(list, k.String())
	}
	slices.Sort(list)
	return list
}

// reasons returns "Kind/namespace/name: field: reason" of the Problems, sorted.
func (s *state) reasons() string {
	var list []string
	for _, of := range s.problems {
		for _, p := range of {
			list = append(list, string(p.Severity)+" "+p.String())
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// spec returns the spec of one object as JSON that can be compared.
func (s *state) spec(t testing.TB, kind api.Kind, namespace, name string) string {
	t.Helper()
	c := s.made[config.Key{Kind: kind, Namespace: namespace, Name: name}]
	if c == nil {
		t.Fatalf("%s %s/%s is not made, only %q", kind, namespace, name, s.names())
	}
	return asYAML(t, config.Spec[proto.Message](c))
}

func asYAML(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.JSONToYAML(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// normal returns YAML its one form.
func normal(t testing.TB, text string) string {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const (
	webIngress = `
kind: Ingress
metadata: {name: web, namespace: shop, annotations: {kubernetes.io/ingress.class: istio}, creationTimestamp: "2024-05-01T00:00:00Z"}
spec:
  tls:
  - {hosts: [Web.example.com], secretName: web-cert}
  rules:
  - host: web.example.com
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /api/, pathType: Prefix, backend: {service: {name: api, port: {name: http}}}}
      - {path: /api, pathType: Exact, backend: {service: {name: api, port: {number: 81}}}}
      - {path: /old/*, pathType: ImplementationSpecific, backend: {service: {name: web, port: {number: 80}}}}
      - {path: /only, backend: {service: {name: web, port: {number: 80}}}}`
	apiService = `
kind: Service
metadata: {name: api, namespace: shop}
spec: {ports: [{name: http, port: 8080}]}`
	moreIngress = `
kind: Ingress
metadata: {name: more, namespace: other, annotations: {kubernetes.io/ingress.class: istio}, creationTimestamp: "2024-05-02T00:00:00Z"}
spec:
  rules:
  - host: web.example.com
    http:
      paths:
      - {path: /more, pathType: Prefix, backend: {service: {name: more, port: {number: 80}}}}
      - {path: /api, pathType: Exact, backend: {service: {name: more, port: {number: 80}}}}`
	meshClass = `
kind: IngressClass
metadata: {name: mesh}
spec: {controller: istio.io/ingress-controller}`

	webGateway = "Gateway/istio-system/web-istio-autogenerated-k8s-ingress-shop"
	webHost    = "VirtualService/shop/web-example-com-web-istio-autogenerated-k8s-ingress"
)

// TestObjects checks the objects that an Ingress is converted to.
func TestObjects(t *testing.T) {
	s := converted(t, objects(t, webIngress, apiService)...)
	if diff := gocmp.Diff([]string{webGateway, webHost}, s.names()); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	want := normal(t, `
selector: {istio: ingressgateway}
servers:
- {port: {number: 443, protocol: HTTPS, name: https-443-ingress-web-shop-0}, hosts: [web.example.com], tls: {mode: SIMPLE, credentialName: web-cert}}
- {port: {number: 80, protocol: HTTP, name: http-80-ingress-web-shop}, hosts: ["*"]}`)
	if diff := gocmp.Diff(want, s.spec(t, api.Gateway, "istio-system", "web-istio-autogenerated-k8s-ingress-shop")); diff != "" {
		t.Errorf("Gateway: -want +got:\n%s", diff)
	}
	want = normal(t, `
hosts: [web.example.com]
gateways: [istio-system/web-istio-autogenerated-k8s-ingress-shop]
http:
- {match: [{uri: {exact: /only}}], route: [{destination: {host: web.shop.svc.cluster.local, port: {number: 80}}, weight: 100}]}
- {match: [{uri: {exact: /api}}], route: [{destination: {host: api.shop.svc.cluster.local, port: {number: 81}}, weight: 100}]}
- {match: [{uri: {exact: /api}}, {uri: {prefix: /api/}}], route: [{destination: {host: api.shop.svc.cluster.local, port: {number: 8080}}, weight: 100}]}
- {match: [{uri: {exact: /old}}, {uri: {prefix: /old/}}], route: [{destination: {host: web.shop.svc.cluster.local, port: {number: 80}}, weight: 100}]}
- {match: [{uri: {prefix: /}}], route: [{destination: {host: web.shop.svc.cluster.local, port: {number: 80}}, weight: 100}]}`)
	if diff := gocmp.Diff(want, s.spec(t, api.VirtualService, "shop", "web-example-com-web-istio-autogenerated-k8s-ingress")); diff != "" {
		t.Errorf("VirtualService: -want +got:\n%s", diff)
	}
	for k, c := range s.made {
		if c.Origin != "Ingress/shop/web" || !c.Created.Equal(time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("%s is from %q, of %s", k, c.Origin, c.Created)
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems:\n%s", s.reasons())
	}
}

// TestOneHostOfTwo: the rules of several Ingresses for a host are merged in one VirtualService, and
// the older Ingress takes precedence.
func TestOneHostOfTwo(t *testing.T) {
	s := converted(t, objects(t, moreIngress, webIngress, apiService)...)
	if diff := gocmp.Diff([]string{"Gateway/istio-system/more-istio-autogenerated-k8s-ingress-other", webGateway, webHost}, s.names()); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	spec := s.spec(t, api.VirtualService, "shop", "web-example-com-web-istio-autogenerated-k8s-ingress")
	if !strings.Contains(spec, "more.other.svc.cluster.local") || strings.Count(spec, "more.other") != 1 {
		t.Errorf("the younger Ingress has not the one rule that is left to it:\n%s", spec)
	}
	if want := `warning Ingress/other/more: spec.rules[0].http.paths[1]: is never used: Ingress/shop/web: spec.rules[0].http.paths[2] is for the same path of host "web.example.com", and takes precedence`; s.reasons() != want {
		t.Errorf("problems:\n%s", s.reasons())
	}
	// Without the older one the VirtualService is the younger's.
	c := ingress.New(ingress.Options{})
	s = newState()
	s.apply(t, c.Convert(objects(t, moreIngress, webIngress, apiService)))
	s.apply(t, c.Convert(mesh.Batch{gone(t, webIngress)}))
	want := []string{"Gateway/istio-system/more-istio-autogenerated-k8s-ingress-other", "VirtualService/other/web-example-com-more-istio-autogenerated-k8s-ingress"}
	if diff := gocmp.Diff(want, s.names()); diff != "" || len(s.problems) > 0 {
		t.Errorf("-want +got:\n%s%s", diff, s.reasons())
	}
}

// TestCertificateOfAnother: a host is served with the certificates of all Ingresses that have rules
// for it.
func TestCertificateOfAnother(t *testing.T) {
	certified := strings.Replace(moreIngress, "  rules:", "  tls: [{hosts: ['*.example.com'], secretName: wild}]\n  rules:", 1)
	spec := converted(t, objects(t, certified, webIngress, apiService)...).spec(t, api.VirtualService, "shop", "web-example-com-web-istio-autogenerated-k8s-ingress")
	if !strings.Contains(spec, "gateways:\n- istio-system/web-istio-autogenerated-k8s-ingress-shop\n- istio-system/more-istio-autogenerated-k8s-ingress-other\n") {
		t.Errorf("gateways of\n%s", spec)
	}
}

// TestDefaultBackend: the default backend serves requests that match no rule, for the Ingress's own
// hosts and for hosts of no Ingress.
func TestDefaultBackend(t *testing.T) {
	const fallback = `
kind: Ingress
metadata: {name: rest, namespace: shop, annotations: {kubernetes.io/ingress.class: istio}}
spec:
  defaultBackend: {service: {name: rest, port: {number: 80}}}
  rules:
  - {host: a.example.com, http: {paths: [{path: /a, pathType: Exact, backend: {service: {name: a, port: {number: 80}}}}]}}
  - {host: b.example.com}
  - {host: c.example.com, http: {paths: [{path: /*, backend: {service: {name: c, port: {number: 80}}}}]}}`
	s := converted(t, objects(t, fallback)...)
	for host, want := range map[string]string{
		"a-example-com": "/a a, rest", "b-example-com": "rest", "c-example-com": "c", "*": "rest",
	} {
		object := s.made[config.Key{Kind: api.VirtualService, Namespace: "shop", Name: host + "-rest-istio-autogenerated-k8s-ingress"}]
		if object == nil {
			t.Fatalf("%s: no VirtualService among %q", host, s.names())
		}
		if got := routes(t, object); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	if len(s.problems) > 0 {
		t.Errorf("problems:\n%s", s.reasons())
	}
}

// routes returns the routes of a VirtualService in short: "path service, service".
func routes(t testing.TB, c *config.Config) string {
	t.Helper()
	var spec struct {
		HTTP []struct {
			Match []struct {
				URI struct{ Exact, Prefix string }
			}
			Route []struct{ Destination struct{ Host string } }
		}
	}
	if err := yaml.Unmarshal([]byte(asYAML(t, config.Spec[proto.Message](c))), &spec); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range spec.HTTP {
		name, _, _ := strings.Cut(r.Route[0].Destination.Host, ".")
		if len(r.Match) > 0 {
			name = cmp.Or(r.Match[0].URI.Exact, r.Match[0].URI.Prefix) + " " + name
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}
