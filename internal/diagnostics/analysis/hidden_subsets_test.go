package analysis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// reviews is a service with its DestinationRule and its VirtualService, which all namespaces see.
const reviews = `
kind: Service
metadata: {name: reviews, namespace: books}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: DestinationRule
metadata: {name: reviews, namespace: books, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
kind: VirtualService
metadata: {name: reviews, namespace: books}
spec:
  hosts: [reviews]
  http: [{route: [{destination: {host: reviews, subset: v1}}]}]
---
`

// TestHiddenSubsets analyzes routes to a subset that some clients do not know, because they use
// another DestinationRule, and similar configuration without that fault.
func TestHiddenSubsets(t *testing.T) {
	const own = `
kind: DestinationRule
metadata: {name: own, namespace: shop}
spec: {host: reviews.books.svc.cluster.local, trafficPolicy: {connectionPool: {tcp: {maxConnections: 5}}}}
`
	const inShop = `VirtualService/books/reviews: spec.http[0].route[0].destination.subset: clients in namespace "shop" use ` +
		`DestinationRule "shop/own" instead of "books/reviews", which defines the subset "v1" of ` +
		`"reviews.books.svc.cluster.local": their requests that are routed there get 503`
	for name, c := range map[string]struct {
		objects string
		want    []string
	}{
		"one rule":                         {"", nil},
		"a rule of the clients' namespace": {own, []string{inShop}},
		"a rule of the clients' namespace with subsets": {own[:len(own)-2] + `, subsets: [{name: v1}]}`, nil},
		"merged rules of one namespace": {`
kind: DestinationRule
metadata: {name: more, namespace: books}
spec: {host: reviews, trafficPolicy: {connectionPool: {tcp: {maxConnections: 5}}}}`, nil},
		"clients with a VirtualService of their own": {own + `---
kind: VirtualService
metadata: {name: own, namespace: shop}
spec: {hosts: [reviews.books.svc.cluster.local], exportTo: [.], http: [{route: [{destination: {host: reviews.books.svc.cluster.local}}]}]}`, nil},
		"clients whose Sidecar may not import it": {own + `---
kind: Sidecar
metadata: {name: own, namespace: shop}
spec: {egress: [{hosts: ["./*"]}]}`, nil},
		"a rule for some workloads": {`
kind: DestinationRule
metadata: {name: some, namespace: books}
spec: {host: reviews, workloadSelector: {matchLabels: {app: web}}, trafficPolicy: {tls: {mode: DISABLE}}}`, []string{
			`VirtualService/books/reviews: spec.http[0].route[0].destination.subset: the workloads in namespace "books" that ` +
				`DestinationRule "books/some" selects use it instead of "books/reviews", which defines the subset "v1" of ` +
				`"reviews.books.svc.cluster.local": their requests that are routed there get 503`,
		}},
		"a rule for some workloads, and a route for others": {`
kind: DestinationRule
metadata: {name: some, namespace: books}
spec: {host: reviews, workloadSelector: {matchLabels: {app: web}}, trafficPolicy: {tls: {mode: DISABLE}}}
---
kind: VirtualService
metadata: {name: reviews, namespace: books}
spec:
  hosts: [reviews]
  http: [{match: [{sourceLabels: {app: other}}], route: [{destination: {host: reviews, subset: v1}}]}]`, nil},
		"a more specific host": {`
kind: DestinationRule
metadata: {name: pages, namespace: books}
spec: {host: "*.books.svc.cluster.local", subsets: [{name: v2}]}
---
kind: VirtualService
metadata: {name: reviews, namespace: books}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews, subset: v2}}]}]}`, []string{
			`VirtualService/books/reviews: spec.http[0].route[0].destination.subset: clients in namespace "books" use ` +
				`DestinationRule "books/reviews" instead of "books/pages", which defines the subset "v2" of ` +
				`"reviews.books.svc.cluster.local": their requests that are routed there get 503`,
		}},
		"a gateway that does not see the rule": {`
kind: DestinationRule
metadata: {name: reviews, namespace: books}
spec: {host: reviews, exportTo: [.], subsets: [{name: v1}]}
---
kind: Gateway
metadata: {name: edge, namespace: books}
spec: {selector: {app: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
kind: Pod
metadata: {name: edge, namespace: ingress, labels: {app: edge}}
spec: {serviceAccountName: edge}
status: {phase: Running, podIP: 10.1.1.2, podIPs: [{ip: 10.1.1.2}], conditions: [{type: Ready, status: "True"}]}
---
kind: VirtualService
metadata: {name: reviews, namespace: books}
spec:
  hosts: [reviews.example]
  gateways: [edge]
  http: [{route: [{destination: {host: reviews, subset: v1}}]}]`, []string{
			`VirtualService/books/reviews: spec.http[0].route[0].destination.subset: DestinationRule "books/reviews" defines the ` +
				`subset "v1" of "reviews.books.svc.cluster.local", but does not apply to clients in namespace "ingress": their ` +
				`requests that are routed there get 503`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(t, []byte(reviews), nil)
			if c.objects != "" {
				m.Apply(t, c.objects)
			}
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				if strings.HasSuffix(p.Field, ".subset") {
					got = append(got, p.Key.String()+": "+p.Field+": "+p.Reason)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
