package listener

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestUncheckedConnections: a policy whose authorizer is called over HTTP has a Problem if a port that
// it applies to may carry another protocol. A port that no service declares counts if the policy
// selects the workload, and names the port or finds no declared port at all.
func TestUncheckedConnections(t *testing.T) {
	const (
		web      = "{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}"
		both     = "{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 81, targetPort: 8081}]}}"
		ingress  = "{kind: Sidecar, metadata: {name: s}, spec: {ingress: [{port: {number: 8080, protocol: HTTP, name: http}, defaultEndpoint: '127.0.0.1:8080'}]}}"
		modes    = "{kind: PeerAuthentication, metadata: {name: p}, spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {'9000': {mode: DISABLE}}}}"
		selector = "selector: {matchLabels: {app: web}}, "
		paths    = "rules: [{to: [{operation: {paths: [/]}}]}]"
		ports    = "rules: [{to: [{operation: {ports: ['8080']}}, {operation: {ports: ['8081', '9000']}}]}]"
		http     = "rules: [{to: [{operation: {ports: ['8080'], paths: [/]}}]}]"
		partly   = "rules: [{to: [{operation: {ports: ['8080']}}]}, {from: [{source: {namespaces: [a]}}]}]"
	)
	for name, tc := range map[string]struct {
		objects, policy, proxy string
		want                   bool
	}{
		"HTTP only":                         {web, selector + paths, "", false},
		"a TCP port":                        {both, paths, "", true},
		"a TCP port that is not named":      {both, selector + http, "", false},
		"a TCP port that is named":          {both, ports, "", true},
		"a rule without ports":              {both, partly, "", true},
		"no service":                        {"", selector + paths, "", true},
		"no service, whole namespace":       {"", paths, "", false},
		"no service, nothing captured":      {"", selector + paths, ", interception: NONE", false},
		"an unknown port is named":          {web, selector + ports, "", true},
		"an unknown port, whole namespace":  {web, ports, "", false},
		"a port with a mode of its own":     {web + "\n---\n" + modes, selector + paths, ", identity: true", true},
		"an ingress listener of HTTP":       {both + "\n---\n" + ingress, selector + paths, "", false},
		"an ingress listener, another port": {both + "\n---\n" + ingress, selector + ports, "", true},
		"no rules":                          {both, "rules: []", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := fixture.New(t, []byte(tc.objects+`
---
{kind: Service, metadata: {name: auth}, spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 8000}]}}
---
{kind: Pod, metadata: {name: client, labels: {app: web}}, status: {podIP: 10.9.9.9, phase: Running}}
---
{kind: AuthorizationPolicy, metadata: {name: ask}, spec: {action: CUSTOM, provider: {name: ask}, `+tc.policy+`}}
`), []byte("extensionProviders: [{name: ask, envoyExtAuthzHttp: {service: auth.default.svc.cluster.local, port: 8000}}]")).
				View(fixture.Proxy(t, []byte("{labels: {app: web}"+tc.proxy+"}")))
			found := NewGenerator().Problems(v)
			for _, p := range found {
				if !strings.Contains(p.String(), "AuthorizationPolicy/default/ask: spec.provider.name: ") {
					t.Errorf("another Problem: %v", p)
				}
			}
			if got := len(found) == 1; got != tc.want {
				t.Errorf("Problem %t, want %t: %v", got, tc.want, found)
			}
		})
	}
}
