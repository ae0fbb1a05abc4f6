package secret

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestCredentials lists the certificates of Secrets and ConfigMaps with the objects that name them.
// Objects that are no credentials, and malformed texts, are left out.
func TestCredentials(t *testing.T) {
	a, key := newAuthority("a"), pki.NewKey()
	pair := map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key)}
	m := fixture.New(t, []byte(strings.Join([]string{
		`---
kind: Gateway
metadata: {name: web, namespace: ingress}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.example], tls: {mode: SIMPLE, credentialName: named}}
  - {port: {number: 444, name: b, protocol: HTTPS}, hosts: [b.example], tls: {mode: SIMPLE, credentialName: configmap://ingress/roots}}
`,
		manifest("Secret", "ingress", "named", pair),
		manifest("Secret", "ingress", "unnamed", pair),
		manifest("Secret", "ingress", "malformed", map[string]string{"tls.crt": "x", "tls.key": "y"}),
		manifest("Secret", "ingress", "password", map[string]string{"password": "x"}),
		manifest("ConfigMap", "ingress", "roots", map[string]string{"ca.crt": a.pem}),
		manifest("ConfigMap", "ingress", "other", map[string]string{"ca.crt": a.pem}),
	}, "")), nil)
	var got []string
	for _, c := range Credentials(m.Snapshot(), 10) {
		got = append(got, fmt.Sprint(c.Object, " chain ", len(c.Chain), " trusted ", len(c.Trusted), " from ", c.From))
	}
	want := []string{
		"Secret/ingress/named chain 1 trusted 0 from [Gateway/ingress/web]",
		"Secret/ingress/unnamed chain 1 trusted 0 from []",
		"ConfigMap/ingress/roots chain 0 trusted 1 from [Gateway/ingress/web]",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the credentials are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := len(Credentials(m.Snapshot(), 1)); n != 1 {
		t.Errorf("%d credentials, limited to 1", n)
	}
}
