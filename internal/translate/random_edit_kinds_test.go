package translate

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// kindTemplates are templates of edits of the kinds for which randomEdit has no code of its own. An
// edit has one of the alternatives of each «a|b|c». META is the name and namespace of the object.
const kindTemplates = `
kind: WorkloadGroup
metadata: {META}
spec: {template: {serviceAccount: «a|b», ports: {http: 80}}}
---
kind: ProxyConfig
metadata: {META}
spec: {concurrency: «1|2»}
---
kind: Pod
metadata: {META, labels: {app: «a|b», v: «a|b»}}
spec: {nodeName: n1, serviceAccountName: «a|b», containers: [{name: c, ports: [{name: http, containerPort: 80}]}]}
status: {podIP: 10.1.0.«1|2|3», podIPs: [{ip: 10.1.0.«1|2|3»}], phase: «Running|Running|Failed», conditions: [{type: Ready, status: "True"}]}
---
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: «a|b»}}
---
kind: ConfigMap
metadata: {META}
data: {ca.crt: «x|w»}
---
kind: IngressClass
metadata: {name: theirs}
spec: {controller: «example.com/ingress|istio.io/ingress-controller»}
---
kind: ServiceExport
apiVersion: multicluster.x-k8s.io/v1beta1
metadata: {META, labels: {x: «a|b»}}
---
kind: ServiceImport
apiVersion: multicluster.x-k8s.io/v1beta1
metadata: {META}
spec: {type: ClusterSetIP, ips: [10.98.0.«1|2»], ports: [{name: http, port: 80}]}
---
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: istio}
spec: {controllerName: «istio.io/gateway-controller|istio.io/gateway-controller|example.com/other»}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: a, namespace: default}
spec:
  gatewayClassName: istio
  allowedListeners: {namespaces: {from: All}}
  listeners:
  - {name: http, port: «80|8080», protocol: HTTP, allowedRoutes: {namespaces: {from: «All|Same»}}}
  - {name: https, port: 443, protocol: HTTPS, hostname: dns.example.com, tls: {certificateRefs: [{name: cert, namespace: «other|default»}]}}
  - {name: tls, port: 8443, protocol: TLS, tls: {mode: Passthrough}}
  - {name: tcp, port: 9000, protocol: TCP}
  - {name: udp, port: 9001, protocol: UDP}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {parentRef: {name: a, namespace: default}, listeners: [{name: http, port: «80|8080|8081», protocol: HTTP, hostname: x.example.com}]}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec:
  parentRefs: [{name: a, namespace: default«|, sectionName: http»}, {group: "", kind: Service, name: static«|, namespace: default»}]
  hostnames: [«x.example.com|"*.example.com"»]
  rules: [{matches: [{path: {value: «/a|/b»}}], backendRefs: [{name: static, namespace: default, port: 80}]}]
---
kind: GRPCRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {parentRefs: [{name: a, namespace: default}], rules: [{matches: [{method: {service: example.«A|B»}}], backendRefs: [{name: static, namespace: default, port: 80}«|, {group: inference.networking.k8s.io, kind: InferencePool, name: a}»]}]}
---
kind: TLSRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {parentRefs: [{name: a, namespace: default}], hostnames: [«d.example.com|e.example.com»], rules: [{backendRefs: [{name: static, namespace: default, port: 80}]}]}
---
kind: TCPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {parentRefs: [{name: a, namespace: default, sectionName: tcp}], rules: [{backendRefs: [{name: «static|a», namespace: default, port: 80}]}]}
---
kind: UDPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {parentRefs: [{name: a, namespace: default, sectionName: udp}], rules: [{backendRefs: [{name: static, namespace: default, port: 81}]}]}
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {from: [{group: gateway.networking.k8s.io, kind: «HTTPRoute|Gateway», namespace: «default|other»}], to: [{group: "", kind: «Service|Secret»}]}
---
kind: BackendTLSPolicy
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {targetRefs: [{group: "", kind: Service, name: «static|a»}], validation: {hostname: «x|y».example.com, wellKnownCACertificates: System}}
---
kind: XBackendTrafficPolicy
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {META}
spec: {targetRefs: [{group: "", kind: Service, name: «static|a»}], retryConstraint: {budget: {percent: «10|50»}}}
---
kind: XMesh
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {META}
spec: {controllerName: «istio.io/gateway-controller|example.com/mesh»}
---
kind: XBackend
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {META}
spec: {type: ExternalHostname, port: {port: «80|443»}, externalHostname: {hostname: «a|b».example.com}«|, tls: {mode: ServerOnly}»}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {META}
spec: {parentRefs: [{name: a, namespace: default}], rules: [{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: «a|b»}]}]}
---
kind: InferencePool
apiVersion: inference.networking.k8s.io/v1
metadata: {META}
spec:
  selector: {matchLabels: {app: «a|b»}}
  targetPorts: [{number: 8000}«|, {number: 8001}»]
  endpointPickerRef: {name: «static|gone», failureMode: «FailOpen|FailClose», port: {number: 80}}
`

// templateEdit returns a random version of the template of a kind, or "" if the kind has none.
func templateEdit(r *rand.Rand, kind api.Kind, meta string) string {
	for template := range strings.SplitSeq(strings.TrimSpace(kindTemplates), "\n---\n") {
		name, group := "kind: "+kind.Name()+"\n", ""
		if info, _ := api.Info(kind); info.Custom && !info.Istio() {
			group = "apiVersion: " + info.Group + "/"
		}
		if !strings.HasPrefix(template, name+group) {
			continue
		}
		template = strings.ReplaceAll(template, "META", meta)
		for {
			before, rest, found := strings.Cut(template, "«")
			if !found {
				return template + "\n"
			}
			choice, after, _ := strings.Cut(rest, "»")
			alternatives := strings.Split(choice, "|")
			template = before + alternatives[r.IntN(len(alternatives))] + after
		}
	}
	return ""
}

// editedKinds returns the kinds of the edits of one mesh in random order. It contains every kind of
// api.Kinds, and the kinds that affect the most proxies several times.
func editedKinds(r *rand.Rand) []api.Kind {
	kinds := []api.Kind{
		api.VirtualService, api.Gateway, api.DestinationRule, api.DestinationRule, api.Service, api.ServiceEntry, api.ServiceEntry,
		api.WorkloadEntry, api.Sidecar, api.EndpointSlice, api.EnvoyFilter, api.Telemetry, api.PeerAuthentication,
		api.AuthorizationPolicy, api.RequestAuthentication, api.WasmPlugin, api.Namespace, api.KubernetesGateway, api.HTTPRoute,
	}
	for _, info := range api.Kinds() {
		kinds = append(kinds, info.Kind)
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	return kinds
}

// TestEveryKindHasAnEdit fails for a kind of api.Kinds that random edits leave out.
func TestEveryKindHasAnEdit(t *testing.T) {
	for _, info := range api.Kinds() {
		text := randomEdit(rand.New(rand.NewPCG(1, 1)), info.Kind)
		if !strings.HasPrefix(text, "kind: "+info.Kind.Name()+"\n") {
			t.Errorf("%s has no random edit, but %q: add a template to kindTemplates", info.Kind, text)
		}
	}
}
