package translate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// private makes the objects of a namespace private by default (exportTo).
const private = `{defaultServiceExportTo: ["."], defaultVirtualServiceExportTo: ["."], defaultDestinationRuleExportTo: ["."]}`

// TestNamespacesKeepToThemselves: if nothing is exported by default, an object of one namespace
// about the hosts of another, about all hosts or about workloads with the labels of another's
// changes no byte for the other's proxies (ISTIO-SECURITY-2026-002). If everything is exported, as
// in Istio by default, a VirtualService for the mesh does, which shows that the test can fail.
// T-TENANT-VS.
func TestNamespacesKeepToThemselves(t *testing.T) {
	scorecard.Check(t, 36)
	const bank = `
kind: Service
metadata: {name: vault, namespace: bank}
spec: {clusterIP: 10.96.0.9, selector: {app: vault}, ports: [{name: http, port: 80}, {name: tcp, port: 9000}]}
---
kind: ServiceEntry
metadata: {name: partner, namespace: bank}
spec: {hosts: [partner.example.com], resolution: STATIC, ports: [{number: 443, name: tls, protocol: TLS}], endpoints: [{address: 10.9.9.9}]}
---
kind: VirtualService
metadata: {name: vault, namespace: bank}
spec: {hosts: [vault], http: [{timeout: 3s, route: [{destination: {host: vault}}]}]}
`
	evil := map[string]string{
		"a VirtualService of its hosts": `
kind: VirtualService
metadata: {name: evil, namespace: evil}
spec: {hosts: [vault.bank.svc.cluster.local, partner.example.com], gateways: [mesh], http: [{route: [{destination: {host: evil.evil.svc.cluster.local}}]}], tls: [{match: [{sniHosts: [partner.example.com]}], route: [{destination: {host: evil.evil.svc.cluster.local}}]}]}`,
		"a VirtualService of all hosts": `
kind: VirtualService
metadata: {name: evil, namespace: evil}
spec: {hosts: ["*.local", "*.com"], http: [{directResponse: {status: 200}}]}`,
		"a DestinationRule": `
kind: DestinationRule
metadata: {name: evil, namespace: evil}
spec: {host: "*.bank.svc.cluster.local", trafficPolicy: {tls: {mode: DISABLE}}}`,
		"a DestinationRule of the host": `
kind: DestinationRule
metadata: {name: evil, namespace: evil}
spec: {host: partner.example.com, trafficPolicy: {tls: {mode: SIMPLE, insecureSkipVerify: true}}}`,
		"an entry of its host": `
kind: ServiceEntry
metadata: {name: evil, namespace: evil}
spec: {hosts: [partner.example.com, vault.bank.svc.cluster.local], addresses: [10.96.0.9], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}], endpoints: [{address: 10.6.6.6}]}`,
		"an entry of its workloads": `
kind: WorkloadEntry
metadata: {name: evil, namespace: evil, labels: {app: vault}}
spec: {address: 10.6.6.6}`,
		"a Service of its workloads": `
kind: Service
metadata: {name: vault, namespace: evil}
spec: {clusterIP: 10.96.0.66, selector: {app: vault}, ports: [{name: http, port: 80}]}`,
		"a Sidecar": `
kind: Sidecar
metadata: {name: evil, namespace: evil}
spec: {workloadSelector: {labels: {app: vault}}, egress: [{hosts: ["./*"]}]}`,
		"an EnvoyFilter": `
kind: EnvoyFilter
metadata: {name: evil, namespace: evil}
spec: {configPatches: [{applyTo: CLUSTER, match: {context: ANY}, patch: {operation: MERGE, value: {connect_timeout: 1s}}}]}`,
		"policies": `
kind: AuthorizationPolicy
metadata: {name: evil, namespace: evil}
spec: {selector: {matchLabels: {app: vault}}, rules: [{}]}
---
kind: PeerAuthentication
metadata: {name: evil, namespace: evil}
spec: {mtls: {mode: DISABLE}}
---
kind: RequestAuthentication
metadata: {name: evil, namespace: evil}
spec: {jwtRules: [{issuer: evil, jwks: '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}'}]}
---
kind: Telemetry
metadata: {name: evil, namespace: evil}
spec: {accessLogging: [{disabled: true}]}`,
	}
	const proxies = `{type: sidecar, name: vault-1, namespace: bank, addresses: [10.0.0.1], identity: true, labels: {app: vault}}`
	everything := func(meshConfig, text string) map[string][]byte {
		v := fixture.New(t, []byte(bank+text), []byte(meshConfig)).View(fixture.Proxy(t, []byte(proxies)))
		return resources(NewTable(Options{}), v)
	}
	before, open := everything(private, ""), everything("{}", "")
	if len(before) < 10 {
		t.Fatalf("only %d resources: the test is not effective", len(before))
	}
	for name, text := range evil {
		if diff := changed(before, everything(private, "---"+text)); diff != "" {
			t.Errorf("%s of another namespace changes %s", name, diff)
		}
	}
	if changed(open, everything("{}", "---"+evil["a VirtualService of its hosts"])) == "" {
		t.Error("where everything is exported, nothing changes either: the test could not fail")
	}
}

// resources are all that generators make for a View, with what these name, by type and name.
func resources(table *Table, v *view.View) map[string][]byte {
	out := map[string][]byte{}
	for _, g := range table.Generators {
		if g.All != nil {
			for _, r := range g.All(v) {
				out[g.TypeURL+" "+r.Name] = r.Body
			}
		}
	}
	for _, g := range table.Generators {
		if g.All != nil || g.Named == nil {
			continue
		}
		for key := range maps.Clone(out) {
			typeURL, name, _ := strings.Cut(key, " ")
			names := []string{name}
			if typeURL == api.ListenerType {
				names = append(names, strings.TrimPrefix(name, "0.0.0.0_"), "meshpilot.policies")
			}
			for _, n := range names {
				if r := g.Named(v, n); r != nil {
					out[g.TypeURL+" "+n] = r.Body
				}
			}
		}
	}
	return out
}

func changed(before, after map[string][]byte) string {
	var list []string
	for key := range before {
		if !bytes.Equal(before[key], after[key]) {
			list = append(list, key)
		}
	}
	for key := range after {
		if _, ok := before[key]; !ok {
			list = append(list, "+"+key)
		}
	}
	if len(list) == 0 {
		return ""
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}
