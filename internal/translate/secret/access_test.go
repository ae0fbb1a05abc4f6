package secret

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

const accessObjects = `---
kind: Gateway
metadata: {name: own, namespace: shop}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.example.com], tls: {mode: SIMPLE, credentialName: "kubernetes-gateway://shop/named"}}
  - {port: {number: 443, name: b, protocol: HTTPS}, hosts: [b.example.com], tls: {mode: SIMPLE, credentialName: "kubernetes-gateway://vault/granted"}}
  - {port: {number: 443, name: c, protocol: HTTPS}, hosts: [c.example.com], tls: {mode: SIMPLE, credentialName: "kubernetes-gateway://vault/kept"}}
---
kind: Gateway
metadata: {name: theirs, namespace: elsewhere}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 443, name: d, protocol: HTTPS}, hosts: [d.example.com], tls: {mode: SIMPLE, credentialName: "kubernetes-gateway://shop/unnamed"}}
---
kind: ReferenceGrant
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: grant, namespace: vault}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: shop}]
  to: [{group: "", kind: Secret, name: granted}]
`

// TestEntitled (T-GW-SECRET) requests every kind of name as every kind of proxy from one generator
// (T-SDS-CACHE): whatever other proxies were sent before, each proxy receives only its own secrets.
func TestEntitled(t *testing.T) {
	a, key := newAuthority("a"), pki.NewKey()
	text := strings.Builder{}
	text.WriteString(accessObjects)
	for _, x := range [][2]string{{"shop", "named"}, {"shop", "unnamed"}, {"vault", "granted"}, {"vault", "kept"}} {
		text.WriteString(manifest(
			"Secret",
			x[0],
			x[1],
			map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key), "ca.crt": a.pem},
		))
	}
	m := fixture.New(t, []byte(text.String()), nil)
	account := func(name string) mesh.Account {
		return mesh.Account{Cluster: "Kubernetes", Namespace: "shop", Name: name}
	}
	m.Send(
		mesh.Event{SecretAccess: &mesh.SecretAccess{Account: account("allowed"), Allowed: true}},
		mesh.Event{SecretAccess: &mesh.SecretAccess{Account: account("refused")}},
	)
	see := func(text string) *view.View {
		v := m.View(fixture.Proxy(t, []byte(text)))
		return view.Build(v.Snapshot, Scope(v.Key))
	}
	const gateway = "type: router, labels: {app: gateway}, namespace: "
	proxies := map[string]*view.View{
		"allowed":   see("{" + gateway + "shop, account: allowed}"),
		"refused":   see("{" + gateway + "shop, account: refused}"),
		"unknown":   see("{" + gateway + "shop, account: nobody}"),
		"nobody":    see("{" + gateway + "shop}"),
		"other":     see("{type: router, namespace: shop, account: allowed}"),
		"elsewhere": see("{" + gateway + "elsewhere, account: allowed}"),
		"sidecar":   see("{namespace: shop, labels: {app: gateway}, account: refused}"),
	}
	g := NewGenerator(Entitled)
	for range 2 {
		for name, who := range map[string]string{
			"kubernetes://named":                      "allowed other",
			"kubernetes://shop/named":                 "allowed other",
			"kubernetes://vault/granted":              "",
			"kubernetes-gateway://shop/named":         "allowed other refused unknown",
			"kubernetes-gateway://shop/unnamed":       "allowed other",
			"kubernetes-gateway://vault/granted":      "allowed refused unknown",
			"kubernetes-gateway://vault/kept":         "",
			"kubernetes://named-cacert":               "allowed refused unknown nobody other sidecar",
			"kubernetes-gateway://shop/named-cacert":  "allowed refused unknown nobody other sidecar",
			"kubernetes-gateway://vault/kept-cacert":  "",
			"kubernetes://vault/granted-cacert":       "",
			"kubernetes-gateway://vault/granted/more": "",
		} {
			for proxy, v := range proxies {
				want := strings.Contains(" "+who+" ", " "+proxy+" ")
				if got := g.Named(v, name) != nil; got != want {
					t.Errorf("%s requests %s: sent = %v, want %v", proxy, name, got, want)
				}
			}
		}
	}
}

// TestAffectedByAccess: a grant or a Gateway that changes what proxies may have is followed.
func TestAffectedByAccess(t *testing.T) {
	m := fixture.New(t, []byte(accessObjects), nil)
	v := m.View(fixture.Proxy(t, []byte("{type: router, namespace: shop, labels: {app: gateway}, account: a}")))
	names := []string{"kubernetes-gateway://vault/granted", "kubernetes://named"}
	g := NewGenerator(Entitled)
	for _, k := range []config.Key{
		{Kind: api.ReferenceGrant, Namespace: "vault", Name: "grant"},
		{Kind: api.Gateway, Namespace: "shop", Name: "own"},
	} {
		d := snapshot.Delta{Configs: map[config.Key]struct{}{k: {}}}
		if got := g.Affected(v, v, d, names); !Touched(v, v.Snapshot, d) || len(got) != 1 || got[0] != names[0] {
			t.Errorf("%s: affected are %q", k, got)
		}
	}
	d := snapshot.Delta{Configs: map[config.Key]struct{}{{Kind: api.Gateway, Namespace: "shop", Name: "another"}: {}}}
	if Touched(v, v.Snapshot, d) {
		t.Error("a Gateway that does not select the proxy touches it")
	}
}

// TestDemandOf: a Secret that proxies request is read only if it may be sent to them, or if a
// configuration object refers to it.
func TestDemandOf(t *testing.T) {
	s := fixture.New(t, []byte(accessObjects), nil).Snapshot()
	known := fixture.Proxy(t, []byte("{type: router, namespace: shop, labels: {app: gateway}, account: a}"))
	unknown := fixture.Proxy(t, []byte("{type: router, namespace: shop}"))
	secret := func(ns, name string) config.Key { return config.Key{Kind: api.Secret, Namespace: ns, Name: name} }
	for _, c := range []struct {
		proxy            *mesh.Proxy
		name             string
		objects, private []config.Key
	}{
		{known, "kubernetes://cert", nil, []config.Key{secret("shop", "cert")}},
		{known, "kubernetes://vault/granted", nil, nil},
		{known, "kubernetes-gateway://vault/granted", []config.Key{secret("vault", "granted")}, nil},
		{known, "kubernetes-gateway://vault/not-configured", nil, nil},
		{known, "kubernetes://cert-cacert", []config.Key{secret("shop", "cert-cacert"), secret("shop", "cert")}, nil},
		{unknown, "kubernetes://cert", nil, nil},
		{unknown, "kubernetes://cert-cacert", nil, nil},
		{known, "default", nil, nil},
	} {
		d := DemandOf(s, c.proxy, []string{c.name})
		if !slices.Equal(d.Objects, c.objects) || !slices.Equal(d.Private, c.private) {
			t.Errorf("%s: %v, private %v; want %v, private %v", c.name, d.Objects, d.Private, c.objects, c.private)
		}
	}
	want := "kubernetes-gateway://shop/named kubernetes-gateway://shop/unnamed kubernetes-gateway://vault/granted kubernetes-gateway://vault/kept"
	if got := strings.Join(Expected(s, known), " "); got != want {
		t.Errorf("expected are %s, want %s", got, want)
	}
}

// TestKeysOfDeployedGateways: the private keys that a deployed Gateway names are sent to its own
// service account only, unless the account may read the Secret anyway.
func TestKeysOfDeployedGateways(t *testing.T) {
	a, key := newAuthority("a"), pki.NewKey()
	content := map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key)}
	m := fixture.New(t, []byte(manifest("Secret", "shop", "named", content)+manifest("Secret", "vault", "granted", content)), nil)
	listener := func(account string) mesh.Event {
		spec := &networking.Gateway{
			Selector: map[string]string{"app": "gateway"},
			Servers: []*networking.Server{{
				Port:  &networking.Port{Number: 443, Name: "https", Protocol: "HTTPS"},
				Hosts: []string{"*"},
				Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialNames: []string{
					"kubernetes-gateway://shop/named", "kubernetes-gateway://vault/granted",
				}},
			}},
		}
		x := &config.Extension{Gateway: &config.GatewayExtension{OwnNamespace: true, ServiceAccount: account}}
		c, err := config.New(config.Meta{Key: config.Key{Kind: api.Gateway, Namespace: "shop", Name: "edge"}, Extension: x}, spec)
		if err != nil {
			t.Fatal(err)
		}
		return mesh.Event{Config: c}
	}
	m.Send(listener("edge-istio"), mesh.Event{SecretAccess: &mesh.SecretAccess{
		Account: mesh.Account{Cluster: "Kubernetes", Namespace: "shop", Name: "reader"}, Allowed: true,
	}})
	plain := fixture.Proxy(t, []byte("{type: router, labels: {app: gateway}, namespace: shop}"))
	plain.Keys = true // verified by its connection alone
	own, other := proxyOf(t, "edge-istio"), proxyOf(t, "default")
	g := NewGenerator(Entitled)
	sent := func(p *mesh.Proxy, name string) bool {
		v := m.View(p)
		return g.Named(view.Build(v.Snapshot, Scope(v.Key)), name) != nil
	}
	for _, test := range []struct {
		name           string
		proxy          *mesh.Proxy
		named, granted bool
	}{
		{"own account", own, true, true},
		{"another account", other, false, false},
		{"an account that may read Secrets", proxyOf(t, "reader"), true, false},
		{"no account", plain, true, true},
	} {
		for name, want := range map[string]bool{
			"kubernetes-gateway://shop/named": test.named, "kubernetes-gateway://vault/granted": test.granted,
		} {
			if got := sent(test.proxy, name); got != want {
				t.Errorf("%s: %s is sent: %v, want %v", test.name, name, got, want)
			}
		}
	}
	before := m.Snapshot()
	now, d := m.Send(listener("default"))
	if !view.KeyChangeFilter(before, now, d)(other) {
		t.Error("another account of the Gateway does not change the Key")
	}
	if sent(own, "kubernetes-gateway://shop/named") || !sent(other, "kubernetes-gateway://shop/named") {
		t.Error("another account of the Gateway has no effect")
	}
	m.Send(listener(""))
	if !sent(own, "kubernetes-gateway://vault/granted") || !sent(other, "kubernetes-gateway://vault/granted") {
		t.Error("a Gateway without an account limits accounts")
	}
	if view.KeyFor(m.Snapshot(), own).ServiceAccount != "" {
		t.Error("gateways have different Keys without need")
	}
}

// proxyOf returns a gateway of the namespace shop that has authenticated as a service account.
func proxyOf(t *testing.T, account string) *mesh.Proxy {
	t.Helper()
	return fixture.Proxy(t, []byte("{type: router, labels: {app: gateway}, namespace: shop, account: "+account+"}"))
}
