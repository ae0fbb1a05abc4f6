package readapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestPeersOfTheService finds replicas as endpoints of the control plane's Service: neither itself,
// nor endpoints at other ports and in other clusters.
func TestPeersOfTheService(t *testing.T) {
	key := mesh.ServiceKey{Namespace: "istio-system", Host: "istiod.istio-system.svc.cluster.local"}
	endpoint := func(workload, address, port string, number uint32, cluster mesh.ClusterID) *mesh.Endpoint {
		return &mesh.Endpoint{Address: address, Port: number, ServicePort: port, Workload: workload, Namespace: "istio-system", Cluster: cluster}
	}
	builder := snapshot.NewBuilder(snapshot.Options{Cluster: "here"})
	s, _ := builder.Apply(
		mesh.Event{Service: mesh.Service{
			ServiceKey: key, Provider: mesh.Kubernetes, Cluster: "here",
			Ports: []mesh.Port{{Name: "grpc-xds", Number: 15010, Protocol: mesh.GRPC}, {Name: "http-monitoring", Number: 15014, Protocol: mesh.HTTP}},
		}.Sealed()},
		mesh.Event{Shard: mesh.Shard{Service: key, Key: mesh.ShardKey{Provider: mesh.Kubernetes, Cluster: "here"}, Endpoints: []*mesh.Endpoint{
			endpoint("istiod-a", "10.1.0.1", "http-monitoring", 15099, "here"), endpoint("istiod-b", "10.1.0.2", "grpc-xds", 15010, "here"),
			endpoint("istiod-b", "10.1.0.2", "http-monitoring", 15099, "here"), endpoint("istiod-c", "10.2.0.1", "http-monitoring", 15099, "there"),
		}}.Sealed()},
	)
	p := Peers{
		Self: "istiod-a", Port: 15014,
		Service: key,
	}
	if d := cmp.Diff([]string{"10.1.0.2:15099"}, p.In(s)); d != "" {
		t.Error(d)
	}
	p.Service.Host = "istiod-canary.istio-system.svc.cluster.local"
	if list := p.In(s); len(list) > 0 {
		t.Errorf("a revision without a Service has %v", list)
	}
	p.Addresses = []string{"b:1", "a:1", "b:1"}
	if d := cmp.Diff([]string{"a:1", "b:1"}, p.In(s)); d != "" {
		t.Error(d)
	}
}

// TestAnswersOfPeers requests an object from one replica, with peers that answer, refuse, and are
// unreachable. Peers must receive the caller's credentials, and a request that they do not forward.
func TestAnswersOfPeers(t *testing.T) {
	var asked []string
	answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization")+" "+r.Header.Get(callerHeader)+" "+r.URL.RequestURI())
		_ = json.NewEncoder(w).Encode(Object{Kind: "VirtualService", Replica: "istiod-2"})
	}))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	leading := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for _, s := range []*httptest.Server{answering, refusing, leading} {
		t.Cleanup(s.Close)
	}
	a := newAPI(t)
	a.Peers.Addresses = []string{host(answering), host(refusing), host(leading), host(away)}
	r := httptest.NewRequest(http.MethodGet, "http://localhost"+Prefix+"/objects/VirtualService/reviews?namespace=shop", nil)
	r.RemoteAddr = "10.0.0.1:1234"
	r.Header.Set("Namespace", "shop")
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	var x ObjectAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil {
		t.Fatal(err)
	}
	if x.Replica != "istiod-1" || len(x.Peers) != 1 || x.Peers[0].Replica != "istiod-2" || len(x.Unanswered) != 3 {
		t.Fatalf("the answer is %s", w.Body)
	}
	for _, u := range x.Unanswered {
		if u.Refused != (u.Address == host(refusing)) {
			t.Errorf("%+v", u)
		}
	}
	if want := []string{"Bearer secret shop /api/v1/objects/VirtualService/reviews?local=true&namespace=shop"}; cmp.Diff(want, asked) != "" {
		t.Errorf("the peer was asked %q", asked)
	}
}

func host(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }

// TestNarrowedCaller sends the header with which replicas forward requests. It must not widen the
// caller's rights.
func TestNarrowedCaller(t *testing.T) {
	a := newAPI(t)
	for _, c := range []struct {
		caller, header string
		want           int
	}{
		{"", "shop", 200}, {"", "other", 403}, {"istio-system", "other", 403}, {"shop", "shop", 200}, {"shop", "other", 403},
		{"other", "shop", 403}, {"-", "shop", 401},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+Prefix+"/objects/VirtualService/reviews?namespace=shop", nil)
		r.RemoteAddr = "10.0.0.1:1234"
		switch c.caller {
		case "":
			r.RemoteAddr = "127.0.0.1:1234"
		case "-":
		default:
			r.Header.Set("Namespace", c.caller)
		}
		r.Header.Set(callerHeader, c.header)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	if c, ok := narrowCaller(&http.Request{Header: http.Header{callerHeader: {"other"}}}, debug.Caller{Namespace: "shop"}); ok || c.Namespace != "shop" {
		t.Errorf("shop becomes %q, %t", c.Namespace, ok)
	}
}
