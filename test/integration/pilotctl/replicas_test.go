package pilotctl

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// noAdmin refuses requests of /admin at the workloads of a namespace.
func noAdmin(namespace string) string {
	return `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: no-admin, namespace: ` + namespace + `}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}
`
}

// callCases are calls of one workload to another, whose sidecar decides the second one. The last one
// fails.
const callCases = `
- {name: all may read, from: one, call: "GET http://reviews.SHOP:9080/", expect: {status: 200, by: VirtualService/SHOP/reviews}}
- {name: no admin, from: one, call: "GET http://reviews.SHOP:9080/admin", expect: "deny by SHOP/no-admin[0]"}
- {name: wrong, from: one, call: "GET http://reviews.SHOP:9080/admin", expect: allow}
`

// TestReadingTwoReplicas reads the state of two replicas by port-forward, and tests calls between
// proxies that are connected to different ones. Then one of them does not answer.
func TestReadingTwoReplicas(t *testing.T) {
	l := newLab(t)
	l.apply(service(l.shop) + "---" + route(l.shop, "1s") + "---" + noAdmin(l.shop))
	a, b := l.replica("istiod-a", "default", nil), l.replica("istiod-b", "default", nil)
	a.connect("one", "10.1.0.1")
	requestFilters(b.Plane, b.connect("reviews-v1", "10.1.1.1"), "reviews-v1")

	l.pilotctl("why", "vs/reviews", "-n", l.shop, "-o", "wide").want(t, 0,
		"proxies: 2 of 2 are served resources generated from it", "one."+l.shop+": ", "reviews-v1."+l.shop+": ")
	target := "http://reviews." + l.shop + ":9080/admin"
	l.pilotctl("explain", "one", target, "-n", l.shop, "--both").want(t, 0, "no-admin", "403")

	file := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(callCases, "SHOP", l.shop)), 0o600); err != nil {
		t.Fatal(err)
	}
	l.pilotctl("test", file, "-n", l.shop).want(t, 5, "√ all may read", "√ no admin", "× wrong", "2 passed, 1 failed")
	r := l.pilotctl("test", file, "-n", l.shop, "-o", "junit")
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Cases    []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(r.out), &suite); err != nil || suite.Tests != 3 || suite.Failures != 1 || suite.Cases[2].Failure == nil {
		t.Errorf("%v: %s", err, r.out)
	}

	l.kubelet.forward("istiod-b", 8080, "")
	for _, command := range []string{"ps", "problems", "nacks", "certificates", "changes", "registries", "why vs/reviews"} {
		words := append(strings.Fields(command), "-n", l.shop)
		if command == "registries" {
			words = words[:1]
		}
		l.pilotctl(words...).want(t, 0, "warning: the output is incomplete: ", "istiod-b")
	}
	l.pilotctl("why", "vs/reviews", "-n", l.shop).want(t, 0, "proxies: 1 of 1 are served resources")
	l.pilotctl("test", file, "-n", l.shop).want(t, 5, "istiod-b", "0 passed, 3 failed")
	l.pilotctl("services", "-n", l.shop).want(t, 0, "reviews."+l.shop)
}
