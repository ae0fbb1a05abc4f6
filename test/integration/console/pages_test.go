package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// hostile is a VirtualService whose texts are markup and scripts.
const hostile = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: "<img src=x onerror=alert(1)>"
  namespace: default
spec:
  hosts: [ratings]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: hostile
  namespace: default
  annotations:
    note: "</script><script>alert(2)</script>"
    "<svg/onload=alert(3)>": "javascript:alert(4)"
spec:
  hosts: [details]
  http:
  - route: [{destination: {host: details}}]
    headers: {request: {set: {x-note: "<b onmouseover=alert(5)>bold</b>"}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: refused, namespace: default}
spec:
  hosts: [reviews]
  http:
  - route: [{destination: {host: "<iframe src=//evil.example>"}}]
`

// modes require mutual TLS except at one port, and configure callers of details to use plain text.
const modes = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: default}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: ratings, namespace: default}
spec:
  selector: {matchLabels: {app: ratings}}
  mtls: {mode: STRICT}
  portLevelMtls: {9080: {mode: PERMISSIVE}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: details-plain, namespace: default}
spec:
  host: details
  trafficPolicy: {tls: {mode: DISABLE}}
`

// access allows reviews to read ratings, and productpage to change them.
const access = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ratings, namespace: default}
spec:
  selector: {matchLabels: {app: ratings}}
  rules:
  - from: [{source: {principals: [cluster.local/ns/default/sa/bookinfo-reviews]}}]
  - from: [{source: {principals: [cluster.local/ns/default/sa/bookinfo-productpage]}}]
    to: [{operation: {methods: [GET, DELETE], paths: ["/ratings/*"]}}]
`

// explained is the call of the screenshots: the route of Jason's request for reviews.
const explained = "explain?proxy=productpage-v1.default&url=http%3A%2F%2Freviews%3A9080%2Freviews%2F0&header=end-user%3A+jason"

// look is a browser window with its size and colour scheme.
type look struct {
	name          string
	width, height int64
	scheme        string
}

// TestPages opens each page and checks that it has its content, is accessible, fits the window and
// has no errors. `make test` also opens them in the dark scheme and in a narrow window.
func TestPages(t *testing.T) {
	looks := []look{{"light", 1280, 900, "light"}, {"dark", 1280, 900, "dark"}, {"narrow", 360, 740, "light"}}
	if *screenshots == "" {
		looks = looks[:longtest.Rounds(1, len(looks))]
	}
	f := newFixture(t, "destination-rule-all", "virtual-service-reviews-test-v2")
	f.write(t, "broken.yaml", `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ratings, namespace: default}
spec:
  hosts: [ratings]
  http:
  - timeout: soon
    route: [{destination: {host: ratings, subset: v9}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: details, namespace: default}
spec:
  hosts: [details]
  http:
  - route:
    - destination: {host: details, subset: v9}
      weight: 100
`)
	f.write(t, "gateway.yaml", gatewayWithCertificate())
	f.write(t, "mutual-tls.yaml", modes)
	f.write(t, "access.yaml", access)
	for _, p := range []struct {
		name, path string
		texts      []string
	}{
		{"overview", "", []string{"error", "Problems", "VirtualService/default/details", "Fix:", "proxies connected", "Live"}},
		{"proxies", "proxies", []string{"productpage-v1.default", "reviews-v3.default", "SYNCED", "7 proxies shown"}},
		{"proxy", "proxies/productpage-v1.default?table=routes", []string{
			"productpage-v1.default", "Clusters", "end-user is jason", "outbound|9080|v2|reviews.default.svc.cluster.local",
			"VirtualService/default/reviews",
		}},
		{"proxy-certificates", "proxies/productpage-v1.default?table=certificates", []string{
			"The proxy has no identity of the mesh, and uses no Secret.", "pilotctl proxy-config secret productpage-v1.default",
		}},
		{"services", "services", []string{"ratings.default.svc.cluster.local", "9080", "shown", "pilotctl services"}},
		{"service", "services/ratings.default.svc.cluster.local", []string{
			"Explain a call of it", "Neighbours by namespace", "reviews-v2", "Callers of port 9080", "everything that is exported to its namespace",
			"details.default.svc.cluster.local", "pilotctl callers ratings.default",
		}},
		{"topology", "topology", []string{
			"productpage", "ratings", "4 services and 1 workload without a service in 1 namespace", "AuthorizationPolicy/default/ratings", "pilotctl topology",
		}},
		{"objects", "objects", []string{"reviews", "DestinationRule", "VirtualService", "error"}},
		{"object", "objects/VirtualService/default/reviews", []string{"exact: jason", "All proxies have it", "Applies to 7 of 7 connected proxies", "pilotctl why"}},
		{"object-problem", "objects/VirtualService/default/details", []string{"subset: v9", "problem"}},
		{"changes", "changes", []string{"AuthorizationPolicy/default/ratings", "7 of 7", "Acknowledged", "pilotctl changes --watch"}},
		{"change", "changes/istiod-1.1", []string{"Everything", "Groups of alike proxies"}},
		{"explain", explained, []string{
			"outbound|9080|v2|reviews.default.svc.cluster.local", "spec.http[0]", "pilotctl explain productpage-v1.default",
		}},
		{"callers", "explain/callers?service=ratings.default", []string{
			"ratings.default.svc.cluster.local:9080", "reviews-v2", "allowed", "AuthorizationPolicy/default/ratings", "spec.rules[0]", "details-v1",
			"denied", "DELETE", "partly", "pilotctl callers ratings.default",
		}},
		{"what-if", "what-if", []string{"Nothing is changed", "Compute"}},
		{"mesh", "mesh", []string{"istiod-1", "Registries", "Versions of proxies", "1.31.0"}},
		{"certificates", "mesh/certificates", []string{
			"1 certificate not valid, or about to expire", "O=cluster.local", "istiod.istio-system.svc", "CN=bookinfo.example", "expiring", "in 5 d",
			"Gateway/default/bookinfo", "pilotctl certificates",
		}},
		{"mutual-tls", "mesh/mutual-tls", []string{
			"accept mutual TLS only", "ratings-v1", "STRICT", "9080 PERMISSIVE", "PeerAuthentication/default/strict", "refused by STRICT",
			"DestinationRule/default/details-plain", "pilotctl mtls",
		}},
	} {
		for _, look := range looks {
			f.resize(look.width, look.height, look.scheme)
			f.open(p.path)
			f.await(p.texts...)
			f.checkAccessibility(p.name + ", " + look.name)
			f.checkWidth(p.name + ", " + look.name)
			if look.name != "narrow" || p.path == "" {
				f.screenshot(p.name + "-" + look.name)
			}
		}
	}
}

// TestHostileTexts shows that texts of users are neither markup nor scripts anywhere.
func TestHostileTexts(t *testing.T) {
	f := newFixture(t)
	f.write(t, "hostile.yaml", hostile)
	f.open("")
	f.await("<img src=x onerror=alert(1)>", "<iframe src=//evil.example>")
	f.open("objects/VirtualService/default/hostile")
	f.await("</script><script>alert(2)</script>", "<svg/onload=alert(3)>", "<b onmouseover=alert(5)>")
	f.open("objects/VirtualService/default/" + url.PathEscape("<img src=x onerror=alert(1)>"))
	f.await("<img src=x onerror=alert(1)>")
	f.open("proxies/" + url.PathEscape("<script>alert(6)</script>"))
	f.await("<script>alert(6)</script>", "no proxy")
	f.open("explain?proxy=client.default&url=" + url.QueryEscape(`http://reviews:9080/"><script>alert(7)</script>`))
	f.await("<script>alert(7)</script>")
	f.open(url.PathEscape("<script>alert(8)</script>"))
	f.await("Page not found")
	if strings.Contains(f.text(), "bold\n") {
		t.Error("markup is rendered")
	}
}
