package calltest_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manifests is a mesh in which two thirds of the pods of "server" refuse calls by "client".
const manifests = `
{kind: Service, apiVersion: v1, metadata: {name: server, namespace: shop}, spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{kind: Pod, apiVersion: v1, metadata: {name: client, namespace: shop}, spec: {serviceAccountName: client}}
---
{kind: Pod, apiVersion: v1, metadata: {name: server-a, namespace: shop, labels: {app: server}}}
---
{kind: Pod, apiVersion: v1, metadata: {name: server-b, namespace: shop, labels: {app: server, closed: "yes"}}}
---
{kind: Pod, apiVersion: v1, metadata: {name: server-c, namespace: shop, labels: {app: server, closed: "yes"}}}
---
kind: AuthorizationPolicy
apiVersion: security.istio.io/v1
metadata: {name: closed, namespace: shop}
spec:
  action: DENY
  selector: {matchLabels: {closed: "yes"}}
  rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}], to: [{operation: {methods: [POST]}}]}]
`

// newMesh returns the mesh of the manifests.
func newMesh(t *testing.T) *calltest.Mesh {
	t.Helper()
	objects, err := offline.ReadRunning([]string{"-"}, strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}
	m, err := calltest.NewMesh(objects, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRun evaluates calls through the proxies of caller and callees. Each case passes, and fails with
// another expectation.
func TestRun(t *testing.T) {
	m := newMesh(t)
	for _, tc := range []struct{ call, right, wrong, difference string }{
		{
			"from: client, call: GET http://server/", "{to: server}", "{to: server-a}", "answered by server-b in 33.3% of calls, want none",
		},
		{
			"from: client, call: POST http://server/", "{statuses: {200: 33.33, 403: 66.67}, to: {server-a: 33.33}}", "allow", "want allow",
		},
		{
			"into: server-b, as: shop/client, call: POST http://server/", "'deny by shop/closed[0]'", "'deny by shop/closed[1]'", "the details are",
		},
		{"into: server-b, call: POST http://server/", "allow", "deny", "want deny"},
		{"from: client.shop, send: bytes, to: '10.1.1.1:9000'", "{cluster: PassthroughCluster}", "{ends: closed}", "want closed"},
		{"from: client, call: GET http://server/, headers: {x: one}", "{sees: {x: one, z: null}}", "{sees: {x: null}}", `x is "one", want none`},
	} {
		for expect, difference := range map[string]string{tc.right: "", tc.wrong: tc.difference} {
			list, err := calltest.ParseCases([]byte("- {name: a, " + tc.call + ", expect: " + expect + "}"))
			if err != nil {
				t.Fatal(err)
			}
			r := m.Run(list[0])
			text := strings.Join(r.Differences, "; ")
			if r.Err != nil || r.Passed() != (difference == "") || !strings.Contains(text, difference) {
				t.Errorf("%s, expect %s: %v %q\n%v", tc.call, expect, r.Err, text, r.Path)
			}
		}
	}
}

// TestRunReportsUnknownWorkloads evaluates calls that cannot be evaluated.
func TestRunReportsUnknownWorkloads(t *testing.T) {
	m := newMesh(t)
	for call, want := range map[string]string{
		"from: nobody, call: GET http://server/":               `there is no proxy "nobody", only client.shop, server-a.shop`,
		"from: client, send: nonsense, to: 'server:80'":        `send "nonsense"`,
		"from: client, call: GET http://server:port/":          "invalid syntax",
		"from: client, send: bytes, to: server":                "has no port",
		"from: client, call: GET server":                       "the URL has no scheme",
		"into: server-a, send: tls a b c, to: 'server-a:8080'": "want bytes, silence or tls",
	} {
		list, err := calltest.ParseCases([]byte("- {name: a, " + call + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if r := m.Run(list[0]); r.Passed() || !strings.Contains(r.Err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, r.Err, want)
		}
	}
}

// TestParseCasesRefuses names the case and the field of each mistake.
func TestParseCasesRefuses(t *testing.T) {
	const call = "call: GET http://a/"
	for text, want := range map[string]string{
		"a: b":                                     "read a list of cases",
		"- {from: a, " + call + "}":                "case 1 has no name",
		"- {name: a, from: a, cal: b}":             `unknown field "cal"`,
		"- {name: a, from: a, call: b, expect: x}": `case "a": expect: verdict "x"`,
		"- {name: a, from: a, " + call + ", expect: {too: b}}":                   `unknown field "too"`,
		"- {name: a, " + call + "}":                                              `case "a": neither from nor into`,
		"- {name: a, from: b, into: c, " + call + "}":                            "both set",
		"- {name: a, from: b, as: x/y, " + call + "}":                            "with into only",
		"- {name: a, from: b}":                                                   "neither call nor send",
		"- {name: a, from: b, send: bytes}":                                      "needs a destination",
		"- {name: a, from: b, times: 3, " + call + "}":                           "times needs real calls",
		"- {name: a, from: b, " + call + ", expect: {sticky: true}}":             "expect.sticky needs real calls",
		"- {name: a, from: b, " + call + "}\n- {name: a, from: b, " + call + "}": `two cases have the name "a"`,
		"- {name: a, from: b, " + call + ", expect: {atLeast: soon}}":            "invalid duration",
	} {
		if _, err := calltest.ParseCases([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
