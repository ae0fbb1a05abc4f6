package export

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/meshpilot/meshpilot/internal/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API server with a Service web in each namespace, of which it deletes one before an
// export is created there.
type server struct {
	deleted string          // the deleted namespace
	created map[string]bool // the namespaces of exports
	lists   int             // lists of all exports
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, rest, _ := strings.Cut(r.URL.Path, "/namespaces/")
	namespace, resource, _ := strings.Cut(rest, "/")
	switch {
	case r.URL.Path == "/apis/multicluster.x-k8s.io/v1beta1":
		fmt.Fprint(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "multicluster.x-k8s.io/v1beta1",
			"resources": [{"name": "serviceexports", "kind": "ServiceExport", "namespaced": true, "verbs": ["list"]}]}`)
	case r.Method == http.MethodPost && namespace == s.deleted:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	case r.Method == http.MethodPost:
		s.created[namespace] = true
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind": "ServiceExport", "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": {"name": "web"}}`)
	case resource == "services" && (namespace != s.deleted || s.lists == 1):
		fmt.Fprint(w, `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
			"items": [{"metadata": {"name": "web", "namespace": "`+namespace+`", "uid": "u"}}]}`)
	default:
		if namespace == "" {
			s.lists++
		}
		fmt.Fprint(w, `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []}`)
	}
}

// TestNamespaceIsDeleted: a namespace that is deleted before its Service is exported does not
// prevent the exports of other namespaces.
func TestNamespaceIsDeleted(t *testing.T) {
	s := &server{deleted: "b", created: map[string]bool{}}
	h := httptest.NewServer(s)
	defer h.Close()
	client, err := kube.NewClient(&rest.Config{Host: h.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	wanted := []types.NamespacedName{{Namespace: "a", Name: "web"}, {Namespace: "b", Name: "web"}, {Namespace: "c", Name: "web"}}
	x, err := New(Options{Client: client, Services: func() []types.NamespacedName { return slices.Clone(wanted) }})
	if err != nil {
		t.Fatal(err)
	}
	defer x.o.Client.HTTP.CloseIdleConnections()
	r := syncState{Exporter: x}
	if err := r.createMissing(t.Context()); err == nil || !strings.Contains(err.Error(), "export b/web") {
		t.Errorf("error %v, want one about b/web", err)
	}
	if err := r.createMissing(t.Context()); err != nil {
		t.Error(err)
	}
	if s.lists != 2 {
		t.Errorf("the exports were listed %d times, want 2", s.lists)
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "c": true}, s.created); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}
