package debug

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestServiceByName finds a service by parts of its hostname, in lower and upper case.
func TestServiceByName(t *testing.T) {
	p := pagesOf(t, fixture.New(t, []byte(`
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: Service
metadata: {name: web, namespace: bank}
spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 80}]}
`), nil), twoProxies(t))
	for _, name := range []string{"web.shop", "WEB.shop", "Web.Shop.svc.cluster.local"} {
		if svc, err := p.ServiceByName(name); err != nil || svc.Namespace != "shop" {
			t.Errorf("%s is %v, %v", name, svc, err)
		}
	}
	for name, want := range map[string]string{"WEB": `"WEB" is ambiguous`, "NONE": `no service "NONE"`} {
		if _, err := p.ServiceByName(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error for %s is %v, want %s", name, err, want)
		}
	}
}
