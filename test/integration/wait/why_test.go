package wait

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

const secondRoute = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: second, namespace: shop}
spec:
  hosts: [reviews.shop]
  http:
  - route: [{destination: {host: reviews.shop, subset: v9}}]
`

// wantOutput fails the test unless the command ended with the exit code and exactly this output.
func (r result) wantOutput(t *testing.T, code int, want string) {
	t.Helper()
	if diff := cmp.Diff(want, r.text); diff != "" || r.code != code {
		t.Errorf("exit code %d, want %d; the output differs (-want +got):\n%s", r.code, code, diff)
	}
}

// TestWhy checks from which objects resources of the proxies are reported to originate, before and
// after a proxy rejects one.
func TestWhy(t *testing.T) {
	f := newFixture(t)
	f.write("second.yaml", secondRoute)
	f.wait("-f", f.path("second.yaml")).want(t, 0)
	a := f.connect("a-1")
	f.connect("b-1")
	f.wait("vs/reviews").want(t, 0, "all 2 proxies")
	f.run("why", "vs/reviews", "-o", "wide").wantOutput(t, 0,
		`VirtualService/shop/reviews routes requests and connections for its hosts
  origin: route.yaml#1:2
  hosts: reviews.shop
  http: 1
proxies: 2 of 2 are served resources generated from it, 2 have acknowledged them
  a-1.shop: 1 resource acknowledged
  b-1.shop: 1 resource acknowledged
resources:
  RDS 9080 (2 proxies)
other objects:
  takes precedence over VirtualService/shop/second for host reviews.shop: it is older, or of equal age and the first by name
`)
	f.Eventually("the analysis has run", func() error {
		if r := f.run("why", "vs/second"); !strings.Contains(r.text, "IST0109") {
			return errors.New(r.text)
		}
		return nil
	})
	f.run("why", "vs/second").want(t, 0,
		"proxies: 0 of 2 are served resources generated from it\nother objects:\n  is overridden by VirtualService/shop/reviews",
		"problems:\n  warning [IST0109]: spec.hosts[0]: ")
	f.run("why", "se/reviews").want(t, 0, "ports: http", "resolution: STATIC", "EDS outbound|9080||reviews.shop (2 proxies)")
	f.run("why", "vs/absent").want(t, 1, "proxies: 0 of 2", "error: the control plane has no VirtualService/shop/absent")
	f.run("why", "nonsense/x").want(t, 1, "is not one that the control plane reads")

	a.Refuse(api.RouteType)
	f.write("route.yaml", route("1"))
	f.wait("-f", f.path("route.yaml"), "--timeout", "20s").want(t, 4, "rejected")
	f.run("why", "vs/reviews").want(t, 0, "a-1.shop: rejected: RDS 9080 rejected", "[MP")
}
