package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestReferences looks up the references of objects that are not part of the snapshot.
func TestReferences(t *testing.T) {
	for text, want := range map[string][]string{
		`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], gateways: [edge], http: [{delegate: {name: cart, namespace: teams}}, {route: [{destination: {host: shop}}]}]}`: nil,
		`
kind: VirtualService
metadata: {name: x}
spec: {hosts: [shop], gateways: [mesh, none], http: [{route: [{destination: {host: shop, subset: v1}}, {destination: {host: shpo}}]}]}`: {
			`spec.http[0].route[0].destination.subset: no DestinationRule defines a subset "v1" of "shop.default.svc.cluster.local": requests that are routed there get 503`,
			`spec.http[0].route[1].destination.host: no service has the host "shpo.default.svc.cluster.local": requests that are routed there get 503`,
			`spec.gateways[1]: there is no Gateway "default/none": the rules are not in use there`,
		},
		`
kind: DestinationRule
metadata: {name: x}
spec: {host: shpo}`: {`spec.host: no service has the host "shpo.default.svc.cluster.local": the rule applies to nothing`},
		`
kind: ServiceEntry
metadata: {name: x}
spec: {hosts: [a.example.com]}`: nil,
	} {
		objects, err := fixture.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range References(fixture.New(t, []byte(shop), nil).Snapshot(), objects[0]) {
			got = append(got, p.Field+": "+p.Reason)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
