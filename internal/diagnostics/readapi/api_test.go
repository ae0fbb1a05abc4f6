package readapi

import (
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

var update = flag.Bool("update", false, "rewrite docs/openapi.yaml") //nolint:gochecknoglobals // a flag

// TestOpenAPI compares docs/openapi.yaml with the types of this package.
func TestOpenAPI(t *testing.T) {
	const path = "../../../docs/openapi.yaml"
	want, err := New(Options{}).OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("docs/openapi.yaml differs (-want +got; go test -update rewrites it):\n%s", d)
	}
}

// newAPI returns the API of a mesh with one VirtualService, which has an error of a later version.
func newAPI(t *testing.T) *API {
	t.Helper()
	key := config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "reviews"}
	c, err := config.New(config.Meta{Key: key, Generation: 3, Origin: "route.yaml#1:1"},
		&networking.VirtualService{Hosts: []string{"reviews"}})
	if err != nil {
		t.Fatal(err)
	}
	b := snapshot.NewBuilder(snapshot.Options{})
	s, _ := b.Apply(mesh.Event{Config: c}, mesh.Event{Source: "files", Problems: &mesh.Problems{
		Scope: "route.yaml",
		List:  []config.Problem{{Key: key, Field: "spec.htp", Reason: "is unknown", Severity: config.Error}},
	}})
	return New(Options{
		Snapshot:     func() *snapshot.Snapshot { return s },
		Connections:  func() []push.Connection { return nil },
		StreamStates: func() []push.StreamState { return nil },
		Replica:      "istiod-1",
		Access: debug.Access{
			Authenticate: func(r *http.Request) (string, error) {
				if n := r.Header.Get("Namespace"); n != "" {
					return n, nil
				}
				return "", errors.New("no token")
			},
			SystemNamespaces: []string{"istio-system"},
		},
	})
}

// get returns the answer to a request of an identity of the namespace; "" is the machine itself and
// "-" a caller without a token.
func get(a *API, namespace, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+Prefix+path, nil)
	r.RemoteAddr = "10.0.0.1:1234"
	switch namespace {
	case "":
		r.RemoteAddr = "127.0.0.1:1234"
	case "-":
	default:
		r.Header.Set("Namespace", namespace)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

func TestObject(t *testing.T) {
	a := newAPI(t)
	w := get(a, "", "/objects/VirtualService/reviews?namespace=shop")
	var o Object
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	if !o.Present || o.Generation != 3 || o.Hash == "" || o.Origin != "route.yaml#1:1" || o.Replica != "istiod-1" ||
		len(o.Problems) != 1 || o.Problems[0].Field != "spec.htp" {
		t.Errorf("the object is %s", w.Body)
	}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/objects/VirtualService/absent?namespace=shop":                       {200, `"present":false`},
		"/objects/VirtualService/reviews":                                     {422, "the namespace of the object is missing"},
		"/objects/GatewayClass/istio?namespace=shop":                          {422, "have no namespace"},
		"/objects/Nonsense/x?namespace=shop":                                  {422, "is not read by this control plane"},
		"/objects/Secret/x?namespace=shop":                                    {422, "only what is made from them is kept"},
		"/objects/VirtualService/reviews/rollout?namespace=shop&proxy=a":      {404, `no proxy \"a\" is connected`},
		"/objects/VirtualService/reviews/rollout?namespace=shop&generation=x": {422, "invalid integer"},
		"/openapi.yaml": {200, "openapi: 3.1.0"},
		"/nonsense":     {404, ""},
	} {
		if w := get(a, "", path); w.Code != want.status || !strings.Contains(w.Body.String(), want.text) {
			t.Errorf("%s: %d %s, want %d and %q", path, w.Code, w.Body, want.status, want.text)
		}
	}
}

// TestCallersSeeTheirNamespace asks with different identities, for both operations.
func TestCallersSeeTheirNamespace(t *testing.T) {
	a := newAPI(t)
	for namespace, want := range map[string]int{"": 200, "istio-system": 200, "shop": 200, "other": 403, "-": 401} {
		for _, path := range []string{
			"/objects/VirtualService/absent?namespace=shop",
			"/objects/VirtualService/absent/rollout?namespace=shop&proxy=a",
		} {
			status := want
			if strings.Contains(path, "rollout") && want == 200 {
				status = 404 // the proxy is not connected
			}
			if w := get(a, namespace, path); w.Code != status {
				t.Errorf("%s asks for %s: %d, want %d", namespace, path, w.Code, status)
			}
		}
	}
}
