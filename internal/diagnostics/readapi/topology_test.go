package readapi

import (
	"strings"
	"testing"
)

// TestTopology reads the topology as an operator and as callers of namespaces, who see their own nodes
// and the calls between them.
func TestTopology(t *testing.T) {
	a := newCallAPI(t, callPolicy+`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: pay}
spec: {egress: [{hosts: ["./*", "shop/web.shop.svc.cluster.local"]}]}
`)
	for caller, want := range map[string]struct {
		nodes int
		calls string
	}{
		"":     {3, "bank.pay.svc.cluster.local web.shop.svc.cluster.local Sidecar/own; web.shop.svc.cluster.local cart.shop.svc.cluster.local AuthorizationPolicy/web; "},
		"shop": {2, "web.shop.svc.cluster.local cart.shop.svc.cluster.local AuthorizationPolicy/web; "},
		"pay":  {1, ""}, "other": {0, ""},
	} {
		x := readView[Topology](t, a, caller, "/topology")
		var calls strings.Builder
		for _, c := range x.Calls {
			calls.WriteString(c.From.String() + " " + c.To.String())
			for _, o := range c.By {
				calls.WriteString(" " + o.Kind + "/" + o.Name)
			}
			calls.WriteString("; ")
		}
		if len(x.Nodes) != want.nodes || calls.String() != want.calls {
			t.Errorf("%q sees %d nodes and %s", caller, len(x.Nodes), calls.String())
		}
	}
}
