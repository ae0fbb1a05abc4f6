package readapi

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

const callPolicy = `---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: cart}}, rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/web]}}]}]}
`

// TestServiceCallers requests the callers as an operator and as identities of namespaces, which see
// only their own workloads.
func TestServiceCallers(t *testing.T) {
	a := newCallAPI(t, callPolicy)
	x := readView[ServiceCallers](t, a, "", "/services/cart.shop/callers")
	var got string
	for _, c := range x.Callers {
		got += fmt.Sprintf("%s/%s %s %s; ", c.Namespace, c.Name, c.Verdict, c.Transport)
	}
	if want := "pay/bank denied plain text; shop/cart denied mutual TLS; shop/web allowed mutual TLS; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if x.Service != "cart.shop.svc.cluster.local" || x.Port != 80 || x.Allowed != 1 || x.Denied != 2 || len(x.Servers) != 1 ||
		x.Servers[0].MutualTLS.Mode != "STRICT" || len(x.Ports) != 1 || len(x.Requests) != 1 {
		t.Errorf("the answer is %+v", x)
	}
	if by := x.Callers[2].Decisions[0].By; len(by) != 1 || by[0].Name != "web" || by[0].Rule != "spec.rules[0]" {
		t.Errorf("web is allowed by %+v", by)
	}
	if x := readView[ServiceCallers](t, a, "shop", "/services/cart.shop/callers?filter=web"); len(x.Callers) != 1 || x.Omitted != 1 ||
		x.Callers[0].Verdict != connectivity.Allowed {
		t.Errorf("shop sees %+v", x)
	}
	for caller, path := range map[string]string{"pay": "cart.shop/callers", "": "absent/callers", "shop": "cart.shop/callers?port=81"} {
		want := http.StatusNotFound
		if caller == "pay" {
			want = http.StatusForbidden
		}
		if w := get(a, caller, "/services/"+path); w.Code != want {
			t.Errorf("%q reads %s: %d %s", caller, path, w.Code, w.Body)
		}
	}
}

// TestOmittedCallers: after a full list, only further callers that pass the filter are omitted, and
// the ones of namespaces that the reader may not read.
func TestOmittedCallers(t *testing.T) {
	var list []connectivity.Caller
	for i := range maxWorkloads + 2 {
		list = append(list, connectivity.Caller{Workload: &connectivity.Workload{Namespace: "shop", Name: fmt.Sprint("web-", i)}})
	}
	list = append(list, connectivity.Caller{Workload: &connectivity.Workload{Namespace: "shop", Name: "cart"}},
		connectivity.Caller{Workload: &connectivity.Workload{Namespace: "pay", Name: "bank"}})
	var x ServiceCallers
	x.addCallers(list, "web", debug.Caller{Namespace: "shop"})
	if len(x.Callers) != maxWorkloads || x.Omitted != 3 {
		t.Errorf("%d callers, %d omitted; want %d, 3", len(x.Callers), x.Omitted, maxWorkloads)
	}
}

// TestCallersWithoutAuthority requests the callers in a mesh whose proxies have no certificates:
// they call in plain text. It then connects a proxy that has some.
func TestCallersWithoutAuthority(t *testing.T) {
	o := newCallAPI(t, "").Options
	var list []push.StreamState
	o.StreamStates = func() []push.StreamState { return list }
	a := New(o)
	transports := func() (got string) {
		for _, c := range readView[ServiceCallers](t, a, "", "/services/cart.shop/callers").Callers {
			got += fmt.Sprintf("%s %s; ", c.Name, c.Transport)
		}
		return got
	}
	with := &mesh.Proxy{Name: "web", Namespace: "shop", Metadata: mesh.NodeMetadata{IstioVersion: "1.28.0"}}
	without := &mesh.Proxy{Name: "web", Namespace: "shop", Metadata: mesh.NodeMetadata{Identity: mesh.NoIdentity}}
	for _, c := range []struct {
		connected []push.StreamState
		want      string
	}{
		{nil, "bank plain text; cart mutual TLS; web mutual TLS; "},
		{[]push.StreamState{{Proxy: without}}, "bank plain text; cart plain text; web plain text; "},
		{[]push.StreamState{{Proxy: without}, {Proxy: with}}, "bank plain text; cart mutual TLS; web mutual TLS; "},
	} {
		if list = c.connected; transports() != c.want {
			t.Errorf("with %d proxies: %s, want %s", len(list), transports(), c.want)
		}
	}
}
