package readapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// TestRegistryTables lists services, endpoints and clusters. A caller with a namespace sees its own
// services, and no clusters.
func TestRegistryTables(t *testing.T) {
	a := newCallAPI(t, callPolicy)
	if x := readView[RegisteredServices](t, a, "", "/registry/services").Services; len(x) != 3 || x[1].Hostname != "cart.shop.svc.cluster.local" {
		t.Errorf("the services are %+v", x)
	}
	if x := readView[RegisteredServices](t, a, "pay", "/registry/services").Services; len(x) != 1 || x[0].Attributes.Namespace != "pay" {
		t.Errorf("pay sees %+v", x)
	}
	all := readView[RegisteredEndpoints](t, a, "", "/registry/endpoints").Ports
	own := readView[RegisteredEndpoints](t, a, "pay", "/registry/endpoints").Ports
	if len(own) == 0 || len(all) <= len(own) || len(own[0].Endpoints) == 0 || !strings.HasPrefix(own[0].Service, "bank.pay.") {
		t.Errorf("the endpoints are %+v, pay sees %+v", all, own)
	}
	if x := readView[ClusterList](t, a, "", "/registry/clusters").Clusters; len(x) != 1 || x[0].SyncStatus != "synced" {
		t.Errorf("the clusters are %+v", x)
	}
	for _, path := range []string{"/registry/clusters", "/services/bank.pay/description", "/proxies/bank.pay/description"} {
		if w := get(a, "pay", path); w.Code != http.StatusForbidden {
			t.Errorf("pay reads %s: %d", path, w.Code)
		}
	}
}

// TestDescriptions describes a service and a proxy.
func TestDescriptions(t *testing.T) {
	a := newCallAPI(t, callPolicy)
	service := readView[struct{ Description describe.Service }](t, a, "", "/services/cart.shop/description")
	if !strings.Contains(service.Description.String(), "cart.shop.svc.cluster.local") {
		t.Errorf("the service is described by %s", &service.Description)
	}
	proxies := newViewAPI(t)
	x := readView[struct{ Description describe.Proxy }](t, proxies, "", "/proxies/web.shop/description").Description
	if x.Name != "web.shop" || x.Type != "sidecar" {
		t.Errorf("the proxy is described by %s", &x)
	}
	for path, code := range map[string]int{
		"/services/absent/description": http.StatusNotFound, "/proxies/absent/description": http.StatusNotFound,
	} {
		if w := get(proxies, "", path); w.Code != code {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestProxyStates lists the nonces of each type.
func TestProxyStates(t *testing.T) {
	a := newViewAPI(t)
	list := readView[ProxyStates](t, a, "", "/proxy-states").Proxies
	if len(list) != 2 || list[0].Proxy != "pay.bank" || list[0].Replica != "istiod-1" {
		t.Fatalf("the proxies are %+v", list)
	}
	if r := list[0].Resources[api.ClusterType]; r.Sent != "2" || r.Acked != "1" || r.LastError != "bad  cluster" {
		t.Errorf("the clusters are %+v", r)
	}
}

// rejecting are connected proxies. One of them has rejected clusters of the namespaces shop and bank.
type rejecting struct{ connections }

// Nacks returns the rejection.
func (rejecting) Nacks() []push.Nack {
	key := func(namespace string) config.Key {
		return config.Key{Kind: api.DestinationRule, Namespace: namespace, Name: "reviews"}
	}
	shared := push.Refused{Name: "shared", From: []config.Key{key("shop"), key("bank")}}
	own := push.Refused{Name: "own", From: []config.Key{key("bank")}}
	proxy := &mesh.Proxy{Name: "web", Namespace: "shop"}
	return []push.Nack{{Proxy: proxy, TypeURL: api.ClusterType, Message: "bad", Resources: []push.Refused{shared, own}, Standing: true}}
}

// TestNacksOfANamespace lists rejected resources. A caller with a namespace sees what is generated from
// objects of it, without the names of other objects.
func TestNacksOfANamespace(t *testing.T) {
	a := newViewAPI(t)
	o := a.Options
	o.Pages = debug.New(debug.Options{Snapshot: o.Snapshot, Proxies: rejecting{}, Access: o.Access})
	a = New(o)
	for caller, want := range map[string]map[string]int{
		"": {"shared": 2, "own": 1}, "shop": {"shared": 1}, "bank": {"shared": 1, "own": 1}, "other": {},
	} {
		x := readView[NackList](t, a, caller, "/nacks").Replicas
		if len(x) != 1 || x[0].Replica != "istiod-1" || len(x[0].Nacks) != len(want) {
			t.Errorf("%q sees %+v, want %v", caller, x, want)
			continue
		}
		for _, n := range x[0].Nacks {
			if len(n.From) != want[n.Resource] {
				t.Errorf("%q sees the objects %v of %s", caller, n.From, n.Resource)
			}
		}
	}
}

// TestFreshProblems finds a Problem at once with the parameter fresh. Without it, and for a caller with a
// namespace, the list is one of the last seconds.
func TestFreshProblems(t *testing.T) {
	a := newAPI(t)
	o := a.Options
	var list []config.Problem
	o.Problems = func() []config.Problem { return list }
	a = New(o)
	count := func(path string) int { return len(readView[Problems](t, a, "", path).Problems) }
	if n := count("/problems"); n != 0 {
		t.Fatalf("%d problems", n)
	}
	list = append(list, config.Problem{Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: "x"}, Reason: "is odd", Severity: config.Warning})
	if kept, fresh := count("/problems"), count("/problems?fresh=true"); kept != 0 || fresh != 1 {
		t.Errorf("%d problems are kept, %d are fresh", kept, fresh)
	}
	if n := len(readView[Problems](t, a, "shop", "/problems?fresh=true").Problems); n != 0 {
		t.Errorf("a caller of a namespace has %d problems computed for it", n)
	}
}

// TestReadWithoutHTTP reads as a caller over xDS. Streams of events are refused, and errors have the
// status and the reason of the answer.
func TestReadWithoutHTTP(t *testing.T) {
	a := newViewAPI(t)
	body, err := a.Read(Prefix+"/proxy-states", debug.Caller{Namespace: "shop"})
	var x ProxyStates
	if err != nil || json.Unmarshal(body, &x) != nil || len(x.Proxies) != 1 || x.Proxies[0].Proxy != "web.shop" {
		t.Errorf("the proxies are %s, %v", body, err)
	}
	for resource, want := range map[string]debug.Refusal{
		Prefix + "/changes/events": {Status: http.StatusNotImplemented, Reason: reasonStream},
		Prefix + "/objects/virtualservice/x/rollout": {Status: http.StatusNotImplemented,
			Reason: reasonStream},
		Prefix + "/registry/clusters": {Status: http.StatusForbidden,
			Reason: "clusters are for callers that may read all namespaces"},
		Prefix + "/proxies/absent": {Status: http.StatusNotFound,
			Reason: "no proxy of that name is connected to this control plane"},
		Prefix + "/absent": {Status: http.StatusNotFound, Reason: "404 page not found"},
		"/api/\x7f":        {Status: http.StatusBadRequest},
	} {
		_, err := a.Read(resource, debug.Caller{Namespace: "shop"})
		var got debug.Refusal
		if !errors.As(err, &got) || got.Status != want.Status || want.Reason != "" && got.Reason != want.Reason {
			t.Errorf("%s: %d %v, want %d %s", resource, got.Status, err, want.Status, want.Reason)
		}
	}
}

// TestReadOverXDS reads the API by the names of debug requests. Errors are gRPC statuses.
func TestReadOverXDS(t *testing.T) {
	a := newViewAPI(t)
	x := debug.XDS{Pages: a.Pages, API: a.Read}
	body, err := x.Page("api/v1/proxy-states", "shop")
	if err != nil || !strings.Contains(string(body), "web.shop") || strings.Contains(string(body), "pay.bank") {
		t.Errorf("the proxies are %s, %v", body, err)
	}
	for name, want := range map[string]codes.Code{
		"api/v1/overview/events": codes.Unimplemented, "api/v1/registry/clusters": codes.PermissionDenied,
		"api/v1/proxies/absent": codes.NotFound, "absent": codes.NotFound,
		"api/v1/explain": codes.InvalidArgument, "syncz": codes.PermissionDenied,
	} {
		if _, err := x.Page(name, "shop"); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := (debug.XDS{Pages: a.Pages}).Page("api/v1/proxies", "shop"); status.Code(err) != codes.NotFound {
		t.Errorf("without the API: %v", err)
	}
}
