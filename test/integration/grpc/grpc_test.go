package grpc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	port   = 28080
	target = "echo.shop.svc.cluster.local:28080"

	clientAddress = "127.1.1.9"
	v1Address     = "127.1.1.1"
	v2Address     = "127.1.1.2"
	clientID      = "spiffe://cluster.local/ns/shop/sa/client"
)

const echo = `
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: shop}
spec: {clusterIP: 10.97.0.1, selector: {app: echo}, ports: [{name: grpc, port: 28080, targetPort: 28080}]}
---
`

// pods returns the test's pods, ready. Without an EndpointSlice they are the service's endpoints.
func pods(there ...string) string {
	var b strings.Builder
	for _, p := range [][4]string{{"v1", "echo", "echo", v1Address}, {"v2", "echo", "echo", v2Address}, {"client", "client", "client", clientAddress}} {
		if !slices.Contains(there, p[0]) {
			continue
		}
		fmt.Fprintf(&b, `
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: shop, labels: {app: %s, version: %s}}
spec: {serviceAccountName: %s, containers: []}
status: {phase: Running, podIP: %s, podIPs: [{ip: %s}], conditions: [{type: Ready, status: "True"}]}
---
`, p[0], p[1], p[0], p[2], p[3], p[3])
	}
	return b.String()
}

const subsets = `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo, namespace: shop}
spec:
  host: echo
POLICY  subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
`

func rule(policy string) string { return strings.Replace(subsets, "POLICY", policy, 1) }

const withCertificates = "  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\n"

func routes(http string) string {
	return `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: shop}
spec:
  hosts: [echo]
  http:
` + http
}

func TestProxyless(t *testing.T) {
	m := newMesh(t)
	m.start()
	m.apply("services", echo+pods("v1", "v2", "client"))
	v1, v2, client := m.join("v1", "echo", v1Address), m.join("v2", "echo", v2Address), m.join("client", "client", clientAddress)
	v1.serve(t, port)
	v2.serve(t, port)

	t.Log("Calls go to all endpoints, by all names of the service.")
	for _, name := range []string{target, "echo:28080", "echo.shop:28080", "echo.shop.svc:28080"} {
		c := client.dial(t, name)
		serving.Eventually(t, patience, name, func() error {
			if got := c.shares(20); got["v1"] != 10 || got["v2"] != 10 {
				return fmt.Errorf("calls were answered by %v", got)
			}
			return nil
		})
	}

	t.Log("A VirtualService selects the destination.")
	c := client.dial(t, target)
	m.apply("rules", rule("")+"---\n"+routes("  - route: [{destination: {host: echo, subset: v2}}]\n"))
	c.only("v2")
	m.apply("rules", rule("")+"---\n"+routes("  - route: [{destination: {host: echo, subset: v1}, weight: 80}, {destination: {host: echo, subset: v2}, weight: 20}]\n"))
	serving.Eventually(t, patience, "v2 answers one call in five", func() error {
		if got := c.shares(200); got["v1"]+got["v2"] != 200 || got["v2"] < 15 || got["v2"] > 70 {
			return fmt.Errorf("calls were answered by %v", got)
		}
		return nil
	})
	m.apply("rules", rule("")+"---\n"+routes(`  - match: [{headers: {who: {exact: tester}}}]
    fault: {abort: {percentage: {value: 100}, grpcStatus: ABORTED}}
    route: [{destination: {host: echo, subset: v2}}]
  - match: [{uri: {prefix: /grpc.testing.TestService/}, headers: {who: {exact: second}}}]
    route: [{destination: {host: echo, subset: v2}}]
  - route: [{destination: {host: echo, subset: v1}}]
`))
	c.only("v1")
	c.only("v2", "who", "second")
	c.refused(codes.Aborted, "who", "tester")

	t.Log("Features that gRPC does not support are reported.")
	m.apply("rules", rule("")+"---\n"+routes("  - mirror: {host: echo, subset: v1}\n    route: [{destination: {host: echo, subset: v1}}]\n"))
	serving.Eventually(t, patience, "a word on the mirror", func() error {
		page, err := serving.Page("http://" + m.http + "/debug/problemz")
		if err == nil && !(strings.Contains(page, "spec.http[0].mirror") && strings.Contains(page, "gRPC applications without a proxy")) {
			err = fmt.Errorf("the page is %s", page)
		}
		return err
	})

	mutual(t, m, c, client)

	t.Log("The control plane stops, and starts again.")
	m.stop()
	if got := c.shares(50); got["v1"] != 50 {
		t.Errorf("without a control plane calls were answered by %v", got)
	}
	m.start()
	m.apply("rules", rule(withCertificates)+"---\n"+routes("  - route: [{destination: {host: echo, subset: v2}}]\n"))
	c.only("v2")

	t.Log("An endpoint is removed.")
	m.apply("services", echo+pods("v1", "client"))
	c.refused(codes.Unavailable)
}

// mutual checks mutual TLS, and policies that match its identities.
func mutual(t *testing.T, m *mesh, c caller, client *application) {
	const strict = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: shop}\nspec: {mtls: {mode: STRICT}}\n---\n"
	policy := func(spec string) string {
		return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: echo, namespace: shop}\nspec:\n  selector: {matchLabels: {app: echo}}\n" + spec
	}
	c.answered("nobody in particular")
	t.Log("Servers require certificates, clients send theirs.")
	m.apply("security", strict)
	c.refused(codes.Unavailable)
	m.apply("rules", rule(withCertificates)+"---\n"+routes("  - route: [{destination: {host: echo, subset: v1}}]\n"))
	c.answered(clientID)
	plain := dial(t, fmt.Sprintf("passthrough:///%s:%d", v1Address, port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	plain.refused(codes.Unavailable)

	t.Log("Policies restrict calls.")
	m.apply("security", strict+policy("  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/other]}}]}]\n"))
	c.refused(codes.PermissionDenied)
	m.apply("security", strict+policy("  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}], to: [{operation: {paths: [/grpc.testing.TestService/UnaryCall]}}]}]\n"))
	c.answered(clientID)
	m.apply("security", strict+policy("  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}], to: [{operation: {paths: [/grpc.testing.TestService/EmptyCall]}}]}]\n"))
	c.refused(codes.PermissionDenied)
	// A path that gRPC cannot match must allow no call, and in a DENY policy it denies all.
	m.apply("security", strict+policy("  rules: [{to: [{operation: {paths: ['/grpc.testing.TestService/{*}']}}]}]\n"))
	c.refused(codes.PermissionDenied)
	m.apply("security", strict+policy("  action: DENY\n  rules: [{to: [{operation: {methods: [GET]}}]}]\n"))
	c.answered(clientID)
	m.apply("security", strict)
	c.answered(clientID)
}
