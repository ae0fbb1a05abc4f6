package gatewayapi_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// editedKinds are objects of all kinds that the Converter reads. Each «a|b|c» is a choice: a random
// version of the object has one of its alternatives.
const editedKinds = `
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: custom}
spec: {controllerName: «istio.io/gateway-controller|istio.io/unmanaged-gateway|example.com/other»«|, parametersRef: {group: "", kind: ConfigMap, name: ca, namespace: other}»}
---
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: istio}
spec: {controllerName: «istio.io/gateway-controller|example.com/other»}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: a}
spec:
  gatewayClassName: «istio|custom|meshpilot|nobody»
  «|allowedListeners: {namespaces: {from: All}}|allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {team: x}}}}»
  «|addresses: [{type: Hostname, value: web}]|addresses: [{type: example.com/other, value: x}]»
  «|tls: {frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ca, namespace: other}]}}}}»
  «|tls: {backend: {clientCertificateRef: {name: cert}}}|tls: {backend: {clientCertificateRef: {name: cert, namespace: other}}}»
  «|infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: ca}}»
  listeners:
  - {name: http, port: «80|8080», protocol: «HTTP|TCP», allowedRoutes: {namespaces: {from: «All|Same|Selector, selector: {matchLabels: {team: x}}»}}}
  - {name: https, port: 443, protocol: HTTPS, hostname: «"*.example.com"|a.example.com», tls: {certificateRefs: [{name: «cert|gone», namespace: «other|default»}]}}
  - {name: pass, port: 443, protocol: TLS, hostname: «"*.example.com"|d.example.com», tls: {mode: Passthrough}}
  - {name: last, port: «9000|80», protocol: «TCP|UDP|HTTP»}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: b, namespace: other}
spec: {gatewayClassName: «istio|custom», listeners: [{name: http, port: 80, protocol: HTTP, hostname: «b.example.com|"*.b.example.com"», allowedRoutes: {namespaces: {from: «All|Same»}}}]}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more, namespace: other}
spec: {parentRef: {name: «a|gone», namespace: default}, listeners: [{name: http, port: «80|81», protocol: HTTP}, {name: https, port: 444, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}]}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: same}
spec: {parentRef: {name: a}, listeners: [{name: http, port: «80|81», protocol: HTTP, hostname: «same.example.com|"*.example.com"», allowedRoutes: {namespaces: {from: «All|Same»}}}]}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: one}
spec:
  parentRefs: [{name: a«|, sectionName: http|, sectionName: https|, port: 80»}«|, {kind: ListenerSet, name: more, namespace: other}|, {name: b, namespace: other}|, {group: "", kind: Service, name: web}»]
  «|hostnames: [a.example.com]|hostnames: [b.example.com, same.example.com]»
  rules:
  - matches: [{path: {value: «/one|/two»}}]
    filters: [«|{type: RequestMirror, requestMirror: {backendRef: {name: web, namespace: other, port: 80}}}|{type: ExtensionRef, extensionRef: {group: example.com, kind: Filter, name: z}}»]
    backendRefs: [{name: web, port: «80|81»«|, namespace: other»}«|, {group: networking.istio.io, kind: Hostname, name: db.example.com, port: 80}|, {group: multicluster.x-k8s.io, kind: ServiceImport, name: import, port: 80}»]
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: two, namespace: other}
spec: {parentRefs: [{kind: ListenerSet, name: «more|same, namespace: default»}, {name: a, namespace: default}], rules: [{backendRefs: [{name: web, port: 80«|, namespace: default»}]}]}
---
kind: GRPCRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: grpc}
spec: {parentRefs: [{name: «a|gone»}, {group: networking.istio.io, kind: ServiceEntry, name: db}], rules: [{matches: [{method: {service: «example.A|example.B»}}], backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: db, port: 80}]}]}
---
kind: TLSRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: tls}
spec: {parentRefs: [{name: a}], hostnames: [«d.example.com|x.example.com»], rules: [{backendRefs: [{name: web, port: 80}]}]}
---
kind: TCPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: tcp}
spec: {parentRefs: [{name: a, sectionName: «last|http»}], rules: [{backendRefs: [{name: «web|gone», port: 80}]}]}
---
kind: UDPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: udp}
spec: {parentRefs: [{name: a, sectionName: last}], rules: [{backendRefs: [{name: «web|gone», port: 80}]}]}
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: routes, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: «HTTPRoute|GRPCRoute», namespace: default}], to: [{group: "", kind: Service«|, name: web|, name: x»}]}
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: certificates, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: default}], to: [{group: "", kind: «Secret|ConfigMap»}]}
---
kind: BackendTLSPolicy
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: first}
spec: {targetRefs: [{group: "", kind: Service, name: web«|, sectionName: http|, sectionName: gone»}], validation: {hostname: web.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: «ca|gone»}]}}
---
kind: BackendTLSPolicy
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: second}
spec: {targetRefs: [{group: «"", kind: Service, name: web|networking.istio.io, kind: ServiceEntry, name: db»}], validation: {hostname: web.example.com, wellKnownCACertificates: «System|Other»}}
---
kind: XBackendTrafficPolicy
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {name: budget}
spec: {targetRefs: [{group: "", kind: Service, name: «web|gone»}], retryConstraint: {budget: {percent: «10|20»}, minRetryRate: {count: 5, interval: «1s|7s»}}«|, sessionPersistence: {sessionName: x}»}
---
kind: XBackendTrafficPolicy
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {name: another}
spec: {targetRefs: [{group: "", kind: Service, name: web}, {group: networking.istio.io, kind: ServiceEntry, name: db}], retryConstraint: {budget: {interval: «5s|x»}}}
---
kind: XMesh
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {name: mesh}
spec: {controllerName: «istio.io/gateway-controller|example.com/mesh»«|, parametersRef: {group: "", kind: ConfigMap, name: ca}»}
---
kind: XBackend
apiVersion: gateway.networking.x-k8s.io/v1alpha1
metadata: {name: x}
spec:
  type: ExternalHostname
  port: {port: «443|444»}
  externalHostname: {hostname: «a.example.com|192.0.2.1»}
  tls: {mode: «None|ServerOnly|ClientAndServer, clientCertificateRef: {name: x, namespace: other}», validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: «ca|gone»}]}}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: external, namespace: other}
spec: {parentRefs: [{name: a, namespace: default}], rules: [{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: x, namespace: default«|, port: 443»}]}]}
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: external}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}], to: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: «x|z»}]}
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: external, namespace: other}
spec: {from: [{group: gateway.networking.x-k8s.io, kind: XBackend, namespace: default}], to: [{group: "", kind: Secret, name: «x|z»}]}
---
kind: InferencePool
apiVersion: inference.networking.k8s.io/v1
metadata: {name: pool}
spec:
  selector: {matchLabels: {app: «a|b»}}
  targetPorts: [{number: 8000}«|, {number: 8001}»]
  endpointPickerRef: {name: «web|gone», failureMode: «FailOpen|FailClose», port: {number: 80}}
---
kind: HTTPRoute
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: pools, namespace: other}
spec:
  parentRefs: [{name: a, namespace: default}«|, {name: b, namespace: other}»]
  rules: [{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: pool, namespace: default}«|, {name: web, port: 80}»]}]
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: pools}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}], to: [{group: inference.networking.k8s.io, kind: InferencePool, name: «pool|x»}]}
---
kind: Namespace
metadata: {name: other, labels: {team: «x|other»}}
---
kind: Namespace
metadata: {name: default, labels: {team: «x|other»}}
---
kind: Service
metadata: {name: web}
spec: {selector: {app: «web|other»}, ports: [{name: http, port: «80|81»}]}
---
kind: Service
metadata: {name: web, namespace: other}
spec: {ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: a-istio}
spec: {type: «LoadBalancer|ClusterIP», ports: [{name: http, port: 80}]}
status: {loadBalancer: {ingress: [{ip: «192.0.2.1|192.0.2.2»}]}}
---
kind: ServiceEntry
metadata: {name: db}
spec: {hosts: [«db.example.com|db2.example.com»], ports: [{name: http, number: «80|81», protocol: HTTP}]}
---
kind: ServiceImport
apiVersion: multicluster.x-k8s.io/v1beta1
metadata: {name: import}
spec: {type: ClusterSetIP, ports: [{port: «80|81»}]}
---
kind: Secret
metadata: {name: cert}
data: «CERT|{tls.crt: eA==, tls.key: eA==}»
---
kind: Secret
metadata: {name: cert, namespace: other}
data: «CERT|{tls.crt: eA==, tls.key: eA==}»
---
kind: ConfigMap
metadata: {name: ca}
data: «{ca.crt: "x"}|AUTHORITY»
---
kind: ConfigMap
metadata: {name: ca, namespace: other}
data: «{}|AUTHORITY»
`

// withCertificates replaces CERT and AUTHORITY by the data of a Secret and a ConfigMap.
func withCertificates(text string) string {
	pair := pki.Authority("edits")
	encode := base64.StdEncoding.EncodeToString
	secret := fmt.Sprintf("{tls.crt: %s, tls.key: %s}", encode(pair.CertificatePEM()), encode(pair.KeyPEM()))
	authority := fmt.Sprintf("{ca.crt: %q}", pair.CertificatePEM())
	return strings.NewReplacer("CERT", secret, "AUTHORITY", authority).Replace(text)
}

// randomVersion returns a template with one alternative of each choice.
func randomVersion(random *rand.Rand, template string) string {
	for {
		before, rest, found := strings.Cut(template, "«")
		if !found {
			return template
		}
		choice, after, _ := strings.Cut(rest, "»")
		alternatives := strings.Split(choice, "|")
		template = before + alternatives[random.IntN(len(alternatives))] + after
	}
}

// edited is a Converter under random edits, and the result of all its batches.
type edited struct {
	converter  *gatewayapi.Converter
	state      *state
	references []config.Key
}

// newEdited returns a Converter that has read the given objects.
func newEdited(t *testing.T, deploys bool, objects mesh.Batch) *edited {
	t.Helper()
	e := &edited{state: newState()}
	e.converter = gatewayapi.New(gatewayapi.Options{
		Deploys: deploys, InferencePools: true, OnReferencesChanged: func(list []config.Key) { e.references = slices.Clone(list) },
	})
	e.state.apply(t, e.converter.Convert(append(slices.Clone(objects), mesh.Event{Op: mesh.Synced})))
	return e
}

// text renders everything that a Converter returns.
func (e *edited) text(t *testing.T) string {
	t.Helper()
	objects, statuses, problems := e.state.text(t, e.converter.Statuses())
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n%s\nreferences: %v\n", objects, statuses, problems, e.references)
	var deployed []string
	for k, d := range e.converter.Deployments().All() {
		deployed = append(deployed, fmt.Sprintf("deployment %s: %s %v %v %x", k, d.Class, d.ClassObject != nil, d.Ports, d.Gateway.Hash))
	}
	slices.Sort(deployed)
	b.WriteString(strings.Join(deployed, "\n"))
	return b.String()
}

// createdAt returns an object with another creation time, which its hash includes.
func createdAt(t *testing.T, c *config.Config, created time.Time) *config.Config {
	t.Helper()
	meta := c.Meta
	meta.Created = created
	out, err := config.New(meta, c.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRandomEdits changes, adds and deletes objects of all kinds at random, one or several in a
// batch. After each batch, a new Converter that reads all objects at once must have the same
// objects, statuses, Problems, deployments and references. Objects that are sent again cause no
// events.
func TestRandomEdits(t *testing.T) {
	templates := strings.Split(strings.TrimSpace(withCertificates(editedKinds)), "\n---\n")
	const edits = 60
	for seed := range uint64(longtest.Rounds(6, 150)) {
		random := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test
		deploys := seed%2 == 0
		current := map[int]mesh.Event{}
		e := newEdited(t, deploys, nil)
		var log []string
		for step := range edits {
			var batch mesh.Batch
			for range 1 + random.IntN(3) {
				i := random.IntN(len(templates))
				text := randomVersion(random, templates[i])
				event := inputs(t, []byte(text))[0]
				event.Config = createdAt(t, event.Config, time.Unix(1000+random.Int64N(3), 0))
				if _, exists := current[i]; exists && random.IntN(3) == 0 {
					event.Op = mesh.Delete
					delete(current, i)
				} else {
					current[i] = event
				}
				log = append(log, fmt.Sprintf("step %d, %v:\n%s", step, event.Op, text))
				batch = append(batch, event)
			}
			e.state.apply(t, e.converter.Convert(batch))
			var all mesh.Batch
			for i := range templates {
				if event, exists := current[i]; exists {
					all = append(all, event)
				}
			}
			want, got := newEdited(t, deploys, all).text(t), e.text(t)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: after step %d the result differs from that of a new converter (-new +edited):\n%s\nlast edits:\n%s",
					seed, step, diff, strings.Join(log[max(0, len(log)-4):], "\n---\n"))
			}
			if out := e.converter.Convert(slices.Clone(all)); len(out) != len(all) {
				t.Fatalf("seed %d, step %d: %d events follow from %d unchanged objects", seed, step, len(out), len(all))
			}
		}
	}
}
