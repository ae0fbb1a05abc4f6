package diff

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compareMesh has a service with a route. TIMEOUT stands for the timeout of the route.
const compareMesh = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  addresses: [240.1.1.1]
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.1, labels: {version: v1}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop.svc.cluster.local]
  http: [{timeout: TIMEOUT, route: [{destination: {host: reviews.shop.svc.cluster.local}}]}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: legacy, namespace: shop}
spec:
  host: reviews.shop.svc.cluster.local
  workloadSelector: {matchLabels: {app: legacy}}
  trafficPolicy: {connectionPool: {tcp: {maxConnections: MAX}}}
`

// compareFixture starts a control plane with compareMesh.
func compareFixture(t *testing.T, timeout, maxConnections string) *fixture {
	t.Helper()
	return newFixture(t, []byte(strings.NewReplacer("TIMEOUT", timeout, "MAX", maxConnections).Replace(compareMesh)))
}

// TestCompare compares what two control planes send to connected proxies and to nodes that only flags
// describe, and the config dumps of one proxy.
func TestCompare(t *testing.T) {
	from, equal, to := compareFixture(t, "3s", "10"), compareFixture(t, "3s", "10"), compareFixture(t, "5s", "20")
	from.connect("web", "shop", "10.1.0.3")
	from.connect("client", "shop", "10.1.0.4")
	to.connect("web", "shop", "10.1.0.3")
	timeout := []string{"timeout: 3s -> 5s\n"}
	const legacy = "sidecar~10.1.0.5~legacy.shop~shop.svc.cluster.local"
	connections := "~ cluster outbound|9080||reviews.shop.svc.cluster.local, max connections: value:10 -> value:20\n"
	for name, c := range map[string]struct {
		args   []string
		code   int
		want   []string
		absent string
	}{
		"all connected proxies": {
			[]string{from.grpc, to.grpc}, 1,
			append(timeout, "client.shop, web.shop:\n", "2 of 2 proxies differ; ", "pilotctl: differences found: 2 of 2 proxies change"), connections,
		},
		"proxies of a namespace": {[]string{from.grpc, to.grpc, "--namespace", "bank"}, 2, []string{"no proxy is connected"}, ""},
		"equal control planes":   {[]string{from.grpc, equal.grpc}, 0, []string{"0 of 2 proxies differ; "}, "->"},
		"one proxy":              {[]string{from.grpc, to.grpc, "--proxy", "web"}, 1, append(timeout, "web.shop:\n", "1 of 1 proxies differ"), "client"},
		"a node without a proxy": {
			[]string{from.grpc, to.grpc, "--proxy", legacy, "--label", "app=legacy", "-o", "text"}, 1,
			append(timeout, connections), "web.shop",
		},
		"a proxy that is not connected": {[]string{from.grpc, to.grpc, "--proxy", "absent"}, 2, []string{`no proxy "absent" is connected`}, ""},
		"no node ID":                    {[]string{from.grpc, to.grpc, "--proxy", "sidecar~web"}, 2, []string{"want TYPE~ADDRESS"}, ""},
		"a node that is refused":        {[]string{from.grpc, to.grpc, "--proxy", "other~x~y~z"}, 2, []string{"read the configuration of other~x~y~z from " + from.grpc}, ""},
		"no control plane":              {[]string{from.grpc, "127.0.0.1:1"}, 2, []string{"127.0.0.1:1"}, ""},
		"an unknown format":             {[]string{from.grpc, to.grpc, "-o", "xml"}, 2, []string{"want text, json or yaml"}, ""},
		"config dumps":                  {[]string{dumpOf(t, from), dumpOf(t, to)}, 1, append(timeout, "1 of 1 proxies differ"), ""},
		"a missing config dump":         {[]string{"absent.json", dumpOf(t, to)}, 2, []string{"absent.json: no such file"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, code := from.pilotctl("", append([]string{"compare"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q", want)
				}
			}
			if c.absent != "" && strings.Contains(text, c.absent) {
				t.Errorf("unexpected %q", c.absent)
			}
			if t.Failed() {
				t.Logf("the output is:\n%s", text)
			}
		})
	}
}

// dumpOf returns a file with the config dump of the proxy web, from the debug page of the control plane.
func dumpOf(t *testing.T, f *fixture) string {
	t.Helper()
	text, code := f.pilotctl("", "request", "GET", "/debug/config_dump?proxyID=web.shop&include_eds")
	if code != 0 {
		t.Fatal(text)
	}
	path := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
