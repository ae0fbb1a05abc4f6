package readapi

import (
	"net/http"
	"testing"
)

// TestServices lists services with their policies, and what a Sidecar leaves in the scope of one.
func TestServices(t *testing.T) {
	a := newCallAPI(t, callPolicy+`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: pay}
spec: {egress: [{hosts: ["./*", "shop/cart.shop.svc.cluster.local"]}]}
`)
	x := readView[ServiceList](t, a, "", "/services").Services
	if len(x) != 3 || x[1].Service != "cart.shop.svc.cluster.local" || x[1].Policies != 1 || x[1].Workloads != 1 || x[0].Policies != 0 {
		t.Errorf("the services are %+v", x)
	}
	if x := readView[ServiceList](t, a, "pay", "/services").Services; len(x) != 1 || x[0].Namespace != "pay" {
		t.Errorf("pay sees %+v", x)
	}
	bank := readView[ServiceCallees](t, a, "", "/services/bank.pay/callees").Workloads
	if len(bank) != 1 || bank[0].Sidecar == nil || bank[0].Sidecar.Name != "own" || len(bank[0].Services) != 1 ||
		bank[0].Services[0].Service != "cart.shop.svc.cluster.local" {
		t.Errorf("bank can call %+v", bank)
	}
	if own := readView[ServiceCallees](t, a, "pay", "/services/bank.pay/callees").Workloads; len(own) != 1 || len(own[0].Services) != 0 || own[0].Omitted != 1 {
		t.Errorf("pay sees %+v", own)
	}
	if cart := readView[ServiceCallees](t, a, "", "/services/cart.shop/callees").Workloads; len(cart) != 1 || cart[0].Sidecar != nil || len(cart[0].Services) != 2 {
		t.Errorf("cart can call %+v", cart)
	}
	if w := get(a, "pay", "/services/cart.shop/callees"); w.Code != http.StatusForbidden {
		t.Errorf("pay reads cart: %d", w.Code)
	}
}
