package grpc

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// deployment is a Deployment of the program greeter.
type deployment struct {
	app, version string
	// inject are annotations for the injector, labels additional labels.
	inject, labels string
	// serves is set if it serves gRPC at port 8080, under the name of the application.
	serves bool
}

const (
	proxyless = "inject.istio.io/templates: grpc-agent"
	simple    = "inject.istio.io/templates: grpc-simple"
	sidecar   = "traffic.sidecar.istio.io/excludeInboundPorts: '8081'"
)

func (d deployment) String() string {
	name, args := d.app, "--name=$(POD_NAME)"
	if d.version != "" {
		name += "-" + d.version
	}
	if d.serves {
		args += ", --serve=:8080"
	}
	if d.inject != sidecar {
		args += ", --xds"
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: shop, labels: {app: %[2]s}}
spec:
  selector: {matchLabels: {app: %[2]s, version: "%[3]s"}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata:
      labels: {app: %[2]s, version: "%[3]s"%[6]s}
      annotations: {%[4]s}
    spec:
      serviceAccountName: %[2]s
      containers:
      - name: greeter
        image: greeter:1
        args: [%[5]s]
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        ports: [{containerPort: 8080}, {containerPort: 8081}]
        readinessProbe: {httpGet: {path: /ready, port: 8081}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 2}}} # until callers know that the pod ends
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[2]s, namespace: shop}
`, name, d.app, d.version, d.inject, args, d.labels)
}

func shopService(app string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec: {selector: {app: %[1]s}, ports: [{name: grpc, port: 8080}]}
`, app)
}

const shopNamespace = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
`

// Callers as servers see them, and targets.
const (
	shopID    = "spiffe://cluster.local/ns/shop/sa/"
	noID      = "nobody in particular"
	xdsEcho   = "xds:///echo:8080"
	xdsWalled = "xds:///walled:8080"
	dnsEcho   = "dns:///echo.shop.svc.cluster.local:8080"
)

// TestPods: gRPC applications in pods, injected by the webhook, beside others with sidecars.
func TestPods(t *testing.T) {
	longtest.Test(t)
	s := newShop(t)
	s.apply(shopNamespace)
	s.apply(shopService("echo"), shopService("walled"), shopService("labelled"),
		deployment{app: "echo", version: "v1", inject: proxyless, serves: true}.String(),
		deployment{app: "echo", version: "v2", inject: proxyless, serves: true}.String(),
		deployment{app: "client", inject: proxyless}.String(), deployment{app: "simple", inject: simple}.String(),
		deployment{app: "labelled", inject: proxyless, labels: ", security.istio.io/tlsMode: istio", serves: true}.String(),
		deployment{app: "walled", inject: sidecar, serves: true}.String())
	s.rolledOut("")
	client, bare, walled := s.greeter("client"), s.greeter("simple"), s.greeter("walled")

	t.Log("Calls go to all pods, in the clear.")
	for _, g := range []greeter{client, bare} {
		g.eventually("both versions answer", xdsEcho, 10, func(got tally) bool { return len(got.Answers) == 2 && got.Callers[noID] == 10 })
		g.answered(xdsWalled, noID)
	}
	walled.answered(dnsEcho, noID)
	t.Log("Sidecars use mutual TLS for servers whose label announces it, and such a server requires it.")
	walled.answered("dns:///labelled.shop.svc.cluster.local:8080", shopID+"walled")
	client.refused("xds:///labelled:8080", "Unavailable")

	s.mutualTLS(client, bare, walled)
	s.deciding(client, walled)
	s.changing(client, walled)
}

const peersStrict = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: STRICT}}
`

func shopRule(host, more string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %[1]s, namespace: shop}
spec:
  host: %[1]s
  trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}
  %[2]s
`, host, more)
}

const shopSubsets = "subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]"

// mutualTLS: servers require client certificates.
func (s *shopOnCluster) mutualTLS(client, bare, walled greeter) {
	s.t.Log("Mutual TLS: between gRPC applications, and with sidecars on either side.")
	s.apply(shopRule("echo", shopSubsets), shopRule("walled", ""), peersStrict)
	client.answered(xdsEcho, shopID+"client")
	client.answered(xdsWalled, shopID+"client")
	walled.answered(dnsEcho, shopID+"walled")
	bare.refused(xdsEcho, "Unavailable")
	pods, err := s.pods(s.t.Context(), "echo")
	if err != nil || len(pods) == 0 {
		s.t.Fatalf("there are %d pods: %v", len(pods), err)
	}
	plain := dial(s.t, fmt.Sprintf("passthrough:///%s:8080", pods[0].Status.PodIP), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return s.cluster.Dial(ctx, "tcp", address)
		}))
	if answer, err := plain.call(); err == nil {
		s.t.Errorf("a call in the clear is answered: %v", answer)
	}
}

func shopPolicy(spec string) string {
	return `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: echo, namespace: shop}
spec:
  selector: {matchLabels: {app: echo}}
` + spec
}

// deciding: policies restrict calls.
func (s *shopOnCluster) deciding(client, walled greeter) {
	const tokens = `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: echo, namespace: shop}
spec: {selector: {matchLabels: {app: echo}}, jwtRules: [{issuer: someone, jwks: '{"keys":[]}'}]}
`
	s.t.Log("Policies decide by the principal.")
	s.apply(shopPolicy("  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}]}]\n"))
	walled.refused(dnsEcho, "PermissionDenied")
	client.answered(xdsEcho, shopID+"client")
	s.apply(shopPolicy("  action: DENY\n  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}]}]\n"))
	client.refused(xdsEcho, "PermissionDenied")
	walled.answered(dnsEcho, shopID+"walled")

	s.t.Log("Tokens are not read: where a policy requires one, no call is allowed.")
	s.apply(tokens, shopPolicy("  action: ALLOW\n  rules: [{from: [{source: {requestPrincipals: ['*']}}]}]\n"))
	walled.refused(dnsEcho, "PermissionDenied")
	client.refused(xdsEcho, "PermissionDenied")
	s.kubectl("delete", "authorizationpolicy/echo", "requestauthentication/echo")
	client.answered(xdsEcho, shopID+"client")
	walled.answered(dnsEcho, shopID+"walled")
}

func shopShift(v1, v2 int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: shop}
spec:
  hosts: [echo]
  http:
  - retries: {attempts: 0}
    route: [{destination: {host: echo, subset: v1}, weight: %d}, {destination: {host: echo, subset: v2}, weight: %d}]
`, v1, v2)
}

// changing: whatever changes, no call is lost.
func (s *shopOnCluster) changing(client, walled greeter) {
	loads := map[string]greeter{xdsEcho: client, dnsEcho: walled}
	both := func(v1, v2 int, holds func(v1, v2 int) bool) {
		s.apply(shopShift(v1, v2))
		for target, g := range loads {
			g.eventually(fmt.Sprintf("%d:%d", v1, v2), target, 50, func(got tally) bool {
				var n [2]int
				for pod, count := range got.Answers {
					if strings.HasPrefix(pod, "echo-v1-") {
						n[0] += count
					} else {
						n[1] += count
					}
				}
				return holds(n[0], n[1])
			})
		}
	}
	s.underLoad("traffic is shifted", loads, func() {
		both(100, 0, func(v1, _ int) bool { return v1 == 50 })
		both(80, 20, func(_, v2 int) bool { return v2 > 2 && v2 < 25 })
		both(0, 100, func(_, v2 int) bool { return v2 == 50 })
		s.kubectl("delete", "virtualservice/echo")
		for target, g := range loads {
			g.eventually("both versions answer", target, 50, func(got tally) bool { return len(got.Answers) == 2 })
		}
	})
	loads[xdsWalled] = client
	s.underLoad("pods come and go", loads, func() {
		s.kubectl("scale", "deployment/echo-v1", "--replicas=3")
		s.rolledOut("app=echo")
		for target, g := range map[string]greeter{xdsEcho: client, dnsEcho: walled} {
			g.eventually("all pods answer", target, 50, func(got tally) bool { return len(got.Answers) == 4 })
		}
		s.kubectl("scale", "deployment/echo-v1", "--replicas=1")
		s.rolledOut("app=echo")
	})
	s.underLoad("servers are rolled", loads, func() {
		s.kubectl("rollout", "restart", "deployment/echo-v1", "deployment/echo-v2")
		s.rolledOut("app=echo")
	})
	s.underLoad("the control plane is away", loads, func() {
		s.kubectl("-n", "istio-system", "rollout", "restart", "deployment/istiod")
		s.kubectl("-n", "istio-system", "rollout", "status", "deployment/istiod", "--timeout=60s")
	})
}
