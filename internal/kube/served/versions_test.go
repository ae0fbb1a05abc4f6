package served

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers discovery: the resources by group and version.
type server struct {
	resources map[string]string
	broken    bool
	requests  atomic.Int32
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	w.Header().Set("Content-Type", "application/json")
	names, found := s.resources[strings.TrimPrefix(r.URL.Path, "/apis/")]
	switch {
	case s.broken:
		http.Error(w, "the API server starts", http.StatusInternalServerError)
	case !found:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	default:
		var list []string
		for name := range strings.FieldsSeq(names) {
			list = append(list, fmt.Sprintf(`{"name": %q, "kind": "K", "namespaced": true, "verbs": ["list"]}`, name))
		}
		fmt.Fprintf(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "g/v", "resources": [%s]}`,
			strings.Join(list, ","))
	}
}

func newVersions(t *testing.T, s *server, now func() time.Time) *Versions {
	t.Helper()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	hc := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(hc.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: h.URL}, hc)
	if err != nil {
		t.Fatal(err)
	}
	return New(client, now)
}

func TestResource(t *testing.T) {
	s := &server{resources: map[string]string{
		"networking.istio.io/v1":       "virtualservices virtualservices/status",
		"networking.istio.io/v1beta1":  "virtualservices workloadentries workloadentries/status",
		"networking.istio.io/v1alpha3": "virtualservices workloadentries workloadgroups",
	}}
	v := newVersions(t, s, nil)
	for kind, want := range map[api.Kind]string{
		api.VirtualService: "networking.istio.io/v1, Resource=virtualservices",
		api.WorkloadEntry:  "networking.istio.io/v1beta1, Resource=workloadentries",
		api.WorkloadGroup:  "networking.istio.io/v1alpha3, Resource=workloadgroups",
		api.EnvoyFilter:    "networking.istio.io/v1alpha3, Resource=envoyfilters", // has one version
		api.Service:        "/v1, Resource=services",
		api.Sidecar:        "Sidecar: the API server does not serve the kind",
		"Unknown":          `unknown kind "Unknown"`,
	} {
		r, err := v.Resource(t.Context(), kind)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if got != want || errors.Is(err, ErrNotServed) != (kind == api.Sidecar) {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// TestCache: an answer is used for a time and an error is not; afterwards a change is found.
func TestCache(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &server{broken: true, resources: map[string]string{"networking.istio.io/v1beta1": "sidecars"}}
	v := newVersions(t, s, func() time.Time { return now })
	version := func() string {
		r, err := v.Resource(t.Context(), api.Sidecar)
		if err != nil {
			return "error"
		}
		return r.Version
	}
	if got := version(); got != "error" {
		t.Errorf("a broken API server serves %s", got)
	}
	s.broken = false
	if got := version(); got != "v1beta1" {
		t.Errorf("%s, want v1beta1", got)
	}
	requests := s.requests.Load()
	s.resources["networking.istio.io/v1"] = "sidecars"
	now = now.Add(maxAge - 1)
	if got := version(); got != "v1beta1" || s.requests.Load() != requests {
		t.Errorf("%s after %d requests; the answer is not cached", got, s.requests.Load()-requests)
	}
	now = now.Add(1)
	if got := version(); got != "v1" {
		t.Errorf("%s, want v1", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.lock <- struct{}{}
	if _, err := v.Resource(ctx, api.Sidecar); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting does not end with the context: %v", err)
	}
}
