package gatewayapi_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestDeployments: a Service has each port of the valid listeners once, with those of ListenerSets,
// and no Gateway of another controller or with an existing Service is deployed.
func TestDeployments(t *testing.T) {
	batch := inputs(t, []byte(`
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: ours}
spec: {controllerName: istio.io/gateway-controller}
---
kind: GatewayClass
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: theirs}
spec: {controllerName: example.com/gateway-controller}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec:
  gatewayClassName: ours
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: b, port: 443, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: missing}]}}
  - {name: a, port: 80, protocol: HTTP}
  - {name: c, port: 443, protocol: HTTPS, hostname: c.example.com, tls: {certificateRefs: [{name: missing}]}}
  - {name: unsupported, port: 54, protocol: SCTP}
  - {name: dns, port: 53, protocol: UDP}
  - {name: readiness, port: 15021, protocol: TCP}
  - {name: once, port: 9001, protocol: TCP}
  - {name: twice, port: 9001, protocol: HTTP}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more}
spec:
  parentRef: {name: edge}
  listeners: [{name: tcp, port: 9000, protocol: TCP}, {name: again, port: 80, protocol: TCP}]
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: named, annotations: {gateway.istio.io/name-override: front}}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: conflict}
spec: {gatewayClassName: istio, listeners: [{name: a, port: 80, protocol: TCP}, {name: b, port: 80, protocol: HTTP}, {name: c, port: 81, protocol: SCTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: manual}
spec: {gatewayClassName: istio, addresses: [{type: Hostname, value: mine}], listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: remote}
spec: {gatewayClassName: istio-remote, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: foreign}
spec: {gatewayClassName: theirs, listeners: [{name: http, port: 80, protocol: HTTP}]}
`))
	var changed []config.Key
	c := gatewayapi.New(gatewayapi.Options{Deploys: true, OnDeploymentsChanged: func(list []config.Key) { changed = append(changed, list...) }})
	c.Convert(append(batch, mesh.Event{Op: mesh.Synced}))
	want := map[string]string{
		"edge":     "edge-ours: dns/53/UDP/udp a/80/TCP/http b/443/TCP/https tcp/9000/TCP/tcp once/9001/TCP/tcp",
		"named":    "front: http/80/TCP/http",
		"conflict": "conflict-istio: a/80/TCP/tcp",
	}
	got := map[string]string{}
	for k, d := range c.Deployments().All() {
		var ports []string
		for _, p := range d.Ports {
			ports = append(ports, fmt.Sprintf("%s/%d/%s/%s", p.Name, p.Number, p.Protocol, p.AppProtocol))
		}
		got[k.Name] = gatewayapi.ServiceName(d.Gateway, d.Class) + ": " + strings.Join(ports, " ")
		if (d.ClassObject != nil) != (d.Class == "ours") {
			t.Errorf("%s: the class is %v", k, d.ClassObject)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("deployments are %v, want %v", got, want)
	}
	if names := namesOf(changed); !slices.Equal(names, []string{"conflict", "edge", "named"}) {
		t.Errorf("notified are %v", names)
	}
	changed = nil
	c.Convert(mesh.Batch{{Op: mesh.Delete, Config: batch[3].Config}})
	if names := namesOf(changed); !slices.Equal(names, []string{"edge"}) {
		t.Errorf("after the end of the ListenerSet notified are %v", names)
	}
}

// TestPortNames: ports of a Service are named after their listeners, with names that a Service may have.
func TestPortNames(t *testing.T) {
	long := strings.Repeat("l", 62)
	c := gatewayapi.New(gatewayapi.Options{Deploys: true})
	c.Convert(append(inputs(t, fmt.Appendf(nil, `
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec:
  gatewayClassName: istio
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: a.b, port: 1, protocol: TCP}
  - {name: a-b, port: 2, protocol: TCP}
  - {name: a-b-4, port: 3, protocol: TCP}
  - {name: status-port, port: 5, protocol: TCP}
  - {name: %[1]s.1, port: 6, protocol: TCP}
  - {name: %[1]sx1, port: 7, protocol: TCP}
  - {name: %[1]sx2, port: 8, protocol: TCP}
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more}
spec:
  parentRef: {name: edge}
  listeners: [{name: a-b, port: 4, protocol: TCP}]
`, long)), mesh.Event{Op: mesh.Synced}))
	var names []string
	for _, d := range c.Deployments().All() {
		for _, p := range d.Ports {
			names = append(names, p.Name)
		}
	}
	want := []string{"a-b", "a-b-2", "a-b-4", "a-b-4x", "status-port-5", long, long + "x", long[:61] + "-8"}
	if !slices.Equal(names, want) {
		t.Errorf("names are %v, want %v", names, want)
	}
}

// TestPortsOfHTTP3: with PILOT_ENABLE_QUIC_LISTENERS a Service has a UDP port beside each port of HTTPS, unless a listener has it.
func TestPortsOfHTTP3(t *testing.T) {
	c := gatewayapi.New(gatewayapi.Options{Deploys: true, HTTP3: true})
	c.Convert(append(inputs(t, []byte(`
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec:
  gatewayClassName: istio
  listeners:
  - {name: web, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: missing}]}}
  - {name: api, port: 443, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: missing}]}}
  - {name: taken, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}
  - {name: dns, port: 8443, protocol: UDP}
  - {name: plain, port: 80, protocol: HTTP}
  - {name: through, port: 9443, protocol: TLS, tls: {mode: Passthrough}}
  - {name: readiness, port: 15021, protocol: HTTPS, tls: {certificateRefs: [{name: missing}]}}
`)), mesh.Event{Op: mesh.Synced}))
	var ports []string
	for _, d := range c.Deployments().All() {
		for _, p := range d.Ports {
			ports = append(ports, fmt.Sprintf("%s/%d/%s/%s", p.Name, p.Number, p.Protocol, p.AppProtocol))
		}
	}
	want := []string{
		"plain/80/TCP/http", "web/443/TCP/https", "web-quic/443/UDP/https", "taken/8443/TCP/https", "dns/8443/UDP/udp", "through/9443/TCP/tls",
	}
	if !slices.Equal(ports, want) {
		t.Errorf("ports are %v, want %v", ports, want)
	}
}

// TestIgnoredHostnames: with ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT=false a Gateway that names an existing
// Service is deployed, and served by its own proxies only.
func TestIgnoredHostnames(t *testing.T) {
	batch := inputs(t, []byte(`
kind: Service
metadata: {name: front}
spec: {selector: {app: front}, clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: manual}
spec: {gatewayClassName: istio, addresses: [{type: Hostname, value: front}], listeners: [{name: http, port: 80, protocol: HTTP}]}
`))
	for ignore, want := range map[bool]string{false: "app=front", true: "gateway.networking.k8s.io/gateway-name=manual"} {
		c := gatewayapi.New(gatewayapi.Options{Deploys: true, IgnoreHostnames: ignore})
		out, deployed := c.Convert(append(slices.Clone(batch), mesh.Event{Op: mesh.Synced})), 0
		for range c.Deployments().All() {
			deployed++
		}
		if (deployed == 1) != ignore {
			t.Errorf("IgnoreHostnames=%t: %d Gateways are deployed", ignore, deployed)
		}
		got := ""
		for _, e := range out {
			if e.Config != nil && e.Source == "Gateway API" && e.Config.Kind == api.Gateway {
				for k, v := range config.Spec[*networking.Gateway](e.Config).GetSelector() {
					got += k + "=" + v
				}
			}
		}
		if got != want {
			t.Errorf("IgnoreHostnames=%t: selector %q, want %q", ignore, got, want)
		}
	}
}

func namesOf(list []config.Key) []string {
	var names []string
	for _, k := range list {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
