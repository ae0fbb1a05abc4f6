package translate

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// everySetting has something that each setting of the mesh is about.
const everySetting = everyResolution + `
---
kind: Service
metadata: {name: own}
spec: {clusterIP: 10.96.0.7, selector: {app: own}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: Pod
metadata: {name: client, labels: {app: own}}
status: {podIP: 10.9.9.9, phase: Running}
---
kind: Service
metadata: {name: theirs, namespace: other}
spec: {clusterIP: 10.96.0.8, ports: [{name: http, port: 80}, {name: tcp, port: 9080}]}
---
kind: VirtualService
metadata: {name: theirs, namespace: other}
spec: {hosts: [theirs.other.svc.cluster.local], http: [{rewrite: {authority: other}, route: [{destination: {host: theirs.other.svc.cluster.local, subset: v1}}]}]}
---
kind: DestinationRule
metadata: {name: theirs, namespace: other}
spec: {host: theirs.other.svc.cluster.local, subsets: [{name: v1, labels: {v: a}}]}
---
kind: DestinationRule
metadata: {name: dns}
spec: {host: dns.example.com, trafficPolicy: {tls: {mode: SIMPLE}, outlierDetection: {consecutive5xxErrors: 5}}}
---
kind: Sidecar
metadata: {name: roots, namespace: roots}
spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}
---
kind: Gateway
metadata: {name: a}
spec: {selector: {app: own}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`

// TestSettingsChangeWhileRunning changes each setting of the mesh that shapes what proxies are
// sent, follows the change as push does, and takes it back: what proxies have must be what new
// generators make, and resources of the type must differ meanwhile.
func TestSettingsChangeWhileRunning(t *testing.T) {
	for setting, types := range map[string]string{
		"proxyListenPort: 15101":                                                                      "LDS",
		"proxyInboundListenPort: 15106":                                                               "LDS",
		"proxyHttpPort: 15002":                                                                        "LDS",
		"connectTimeout: 3s":                                                                          "CDS",
		"protocolDetectionTimeout: 3s":                                                                "LDS",
		"tcpKeepalive: {probes: 3}":                                                                   "CDS",
		"enableTracing: false":                                                                        "LDS",
		"accessLogFile: /dev/stdout":                                                                  "LDS",
		"{accessLogFile: x, accessLogFormat: z}":                                                      "LDS",
		"{accessLogFile: x, accessLogEncoding: JSON}":                                                 "LDS",
		"defaultConfig: {tracing: {sampling: 7}}":                                                     "LDS",
		"defaultConfig: {proxyHeaders: {server: {value: x}}}":                                         "LDS",
		"defaultConfig: {proxyHeaders: {attemptCount: {disabled: true}}}":                             "RDS",
		"defaultConfig: {proxyHeaders: {xForwardedHost: {enabled: true}}}":                            "RDS",
		"defaultConfig: {connectionSettings: {httpIdleTimeout: 3s}}":                                  "LDS",
		"defaultConfig: {connectionSettings: {clusterPerConnectionBufferLimitBytes: 9}}":              "CDS",
		"defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}":                                    "LDS",
		"outboundTrafficPolicy: {mode: REGISTRY_ONLY}":                                                "LDS RDS",
		"outboundTrafficPolicy: {mode: ALLOW_ANY_DYNAMIC_DNS}":                                        "CDS LDS RDS",
		"inboundTrafficPolicy: {mode: LOCALHOST}":                                                     "CDS",
		`defaultServiceExportTo: ["."]`:                                                               "CDS LDS RDS",
		`defaultVirtualServiceExportTo: ["."]`:                                                        "RDS",
		`defaultDestinationRuleExportTo: ["."]`:                                                       "CDS",
		"rootNamespace: roots":                                                                        "LDS RDS",
		"localityLbSetting: {enabled: true, distribute: [{from: r/a/*, to: {r/a/*: 80, r/b/*: 20}}]}": "CDS",
		"dnsRefreshRate: 7s":                                                                          "CDS",
		"h2UpgradePolicy: UPGRADE":                                                                    "CDS",
		`inboundClusterStatName: "%SERVICE%"`:                                                         "CDS",
		`outboundClusterStatName: "%SERVICE%"`:                                                        "CDS",
		"pathNormalization: {normalization: MERGE_SLASHES}":                                           "LDS",
		"pathNormalization: {normalization: DECODE_AND_MERGE_SLASHES}":                                "LDS",
		"pathNormalization: {normalization: NONE}":                                                    "LDS",
		"defaultHttpRetryPolicy: {attempts: 5}":                                                       "RDS",
		"tlsDefaults: {ecdhCurves: [P-256]}":                                                          "CDS",
		"defaultTrafficPolicy: {connectionPool: {tcp: {maxConnections: 7, idleTimeout: 7s}}}":         "CDS LDS",
		"{extensionProviders: [{name: x, envoyFileAccessLog: {path: /x}}], defaultProviders: {accessLogging: [x]}}": "LDS",
		"caCertificates: [{pem: " + `"` + strings.ReplaceAll(rootCertificate(), "\n", `\n`) + `"` + "}]":            "PCDS",
	} {
		t.Run(setting, func(t *testing.T) { changeSetting(t, setting, strings.Fields(types)) })
	}
}

func changeSetting(t *testing.T, setting string, types []string) {
	t.Helper()
	m := fixture.New(t, []byte(everySetting), nil)
	table := NewTable(Options{})
	var followers []*follower
	for _, proxy := range []string{
		"{addresses: [10.9.9.9], labels: {app: own}, locality: r/a}", "{namespace: third}",
		"{type: router, labels: {app: own}}",
	} {
		p := fixture.Proxy(t, []byte(proxy))
		for i := range table.Generators {
			f := &follower{gen: &table.Generators[i], proxy: p, key: view.KeyFor(m.Snapshot(), p)}
			f.view = view.Build(m.Snapshot(), f.key)
			f.set = whole(t, f.gen, f.view)
			followers = append(followers, f)
		}
	}
	differs := map[string]bool{}
	for _, text := range []string{setting, "{}"} {
		parsed, err := mesh.ParseMeshConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "defaultProviders") {
			parsed.DefaultProviders.Metrics = nil // as the fixture has it
		}
		before := m.Snapshot()
		s, d := m.Send(mesh.Event{Settings: &mesh.Settings{Mesh: parsed}})
		fresh := NewTable(Options{})
		for i, f := range followers {
			was := f.set
			f.move(t, before, s, d)
			f.follow(s, d)
			if !resource.Compare(f.set, was).Empty() {
				differs[shortType(f.gen.TypeURL)] = true
			}
			g := &fresh.Generators[i%len(fresh.Generators)]
			want := whole(t, g, view.Build(s, f.key))
			if diff := resource.Compare(want, f.current(want)); !diff.Empty() {
				t.Fatalf("after %s, generator %d (%s) has others than new generators make: %s",
					text, i, g.TypeURL, describe(t, diff, want))
			}
		}
	}
	for _, want := range types {
		if !differs[want] {
			t.Errorf("no %s resource differs", want)
		}
	}
}

func shortType(url string) string {
	return map[string]string{
		api.ClusterType: "CDS", api.EndpointType: "EDS", api.ListenerType: "LDS", api.RouteType: "RDS", api.ProxyConfigType: "PCDS",
	}[url]
}
