package proxyconfig

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

func certificate(name string, authority bool) string {
	return string(pki.SelfSigned(&x509.Certificate{
		Subject: pkix.Name{CommonName: name},
		IsCA:    authority,
	}).CertificatePEM())
}

// made returns the ProxyConfig of a mesh with these settings.
func made(t testing.TB, g *Generator, m *meshconfig.MeshConfig) *resource.Resource {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	list := g.All(fixture.New(t, nil, text).View(fixture.Proxy(t, nil)))
	if len(list) != 1 || list[0].Name != Name || list[0].TypeURL != api.ProxyConfigType {
		t.Fatalf("got %+v, want one ProxyConfig", list)
	}
	return list[0]
}

func trusting(texts ...string) *meshconfig.MeshConfig {
	m := new(meshconfig.MeshConfig)
	for _, text := range texts {
		m.CaCertificates = append(m.CaCertificates, &meshconfig.MeshConfig_CertificateData{
			CertificateData: &meshconfig.MeshConfig_CertificateData_Pem{Pem: text},
		})
	}
	return m
}

func TestTrustedCertificates(t *testing.T) {
	a, b := certificate("a", true), certificate("b", true)
	if a > b {
		a, b = b, a
	}
	inDefault := trusting(b)
	inDefault.DefaultConfig = &meshconfig.ProxyConfig{CaCertificatesPem: []string{a, b}}
	for name, c := range map[string]struct {
		mesh *meshconfig.MeshConfig
		want []string
	}{
		"none": {new(meshconfig.MeshConfig), nil},
		"one": {&meshconfig.MeshConfig{CaCertificates: []*meshconfig.MeshConfig_CertificateData{{
			CertificateData: &meshconfig.MeshConfig_CertificateData_Pem{Pem: a},
		}}}, []string{a}},
		"another":                  {trusting(b), []string{b}},
		"in another order":         {trusting(b, a), []string{a, b}},
		"in one text":              {trusting("# roots\n" + b + "\n" + a), []string{a, b}},
		"in the default config":    {inDefault, []string{a, b}},
		"twice, spelled otherwise": {trusting(a, "\n"+strings.ReplaceAll(a, "\n", "\r\n"), b), []string{a, b}},
		"beside one that is bad":   {trusting(a, "no certificate", b+certificate("leaf", false)), []string{a}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := golden.Decode(t, made(t, NewGenerator(), c.mesh)).(*meshconfig.ProxyConfig)
			if !ok {
				t.Fatal("not a ProxyConfig")
			}
			if diff := cmp.Diff(c.want, got.CaCertificatesPem); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			got.CaCertificatesPem = nil
			if text := got.String(); text != "" {
				t.Errorf("there is also %s", text)
			}
		})
	}
}

// TestOneResourceForTheMesh: all proxies share one resource, and only a change of settings changes
// it.
func TestOneResourceForTheMesh(t *testing.T) {
	g := NewGenerator()
	text, err := protojson.Marshal(trusting(certificate("a", true)))
	if err != nil {
		t.Fatal(err)
	}
	m := fixture.New(t, nil, text)
	first := g.All(m.View(fixture.Proxy(t, nil)))[0]
	m.Apply(t, "kind: Service\nmetadata: {name: s}\nspec: {clusterIP: 10.96.0.1}")
	other := view.KeyFor(m.Snapshot(), fixture.Proxy(t, []byte("{type: router, namespace: other, network: n}")))
	if g.All(view.Build(m.Snapshot(), other))[0] != first || g.All(view.Build(m.Snapshot(), Scope(other)))[0] != first {
		t.Error("another proxy has one of its own")
	}
	if got := g.Computed(); got != 1 {
		t.Errorf("made %d times, want once", got)
	}
}

func TestProblems(t *testing.T) {
	leaf := certificate("leaf", false)
	m := trusting(certificate("a", true), "nothing", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", leaf)
	m.CaCertificates = append(m.CaCertificates, &meshconfig.MeshConfig_CertificateData{
		CertificateData: &meshconfig.MeshConfig_CertificateData_SpiffeBundleUrl{
			SpiffeBundleUrl: "http://example.com/bundle",
		},
	}, &meshconfig.MeshConfig_CertificateData{
		TrustDomains: []string{"A b"}, CertificateData: &meshconfig.MeshConfig_CertificateData_Pem{
			Pem: certificate("x", true),
		},
	})
	m.DefaultConfig = &meshconfig.ProxyConfig{CaCertificatesPem: []string{leaf}}
	var got []string
	for _, p := range Problems(m) {
		reason, _, _ := strings.Cut(p.Reason, ":")
		got = append(got, string(p.Severity)+" "+p.Field+": "+reason)
	}
	want := []string{
		"error caCertificates[1].pem: has no certificate in PEM",
		"error caCertificates[2].pem: has a PRIVATE KEY where a certificate belongs; it is not used",
		"error caCertificates[3].pem: is not a certificate, and is not used",
		`error caCertificates[4].pem: the certificate of "CN=leaf" is not that of an authority, and is not used`,
		"error caCertificates[5].spiffeBundleUrl: must be an https URL",
		`error caCertificates[6].trustDomains: "A b"`,
		`error defaultConfig.caCertificatesPem[0]: the certificate of "CN=leaf" is not that of an authority, and is not used`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPendingRoots: until all authorities are known no ProxyConfig is sent, because a proxy
// with fewer authorities would refuse peers with certificates of the others.
func TestPendingRoots(t *testing.T) {
	m, g := fixture.New(t, nil, nil), NewGenerator()
	proxies := func() int { return len(g.All(m.View(fixture.Proxy(t, nil)))) }
	if n := proxies(); n != 1 {
		t.Errorf("without an authority there are %d ProxyConfigs", n)
	}
	m.Send(mesh.Event{Settings: &mesh.Settings{RootsComing: true}})
	if n := proxies(); n != 0 {
		t.Errorf("before its roots are known there are %d ProxyConfigs", n)
	}
	m.Send(mesh.Event{Settings: &mesh.Settings{Roots: []string{certificate("a", true)}}})
	if n := proxies(); n != 1 {
		t.Errorf("with its roots there are %d ProxyConfigs", n)
	}
}

// TestTrustDomains: if any certificate is restricted to trust domains, the domains of each
// certificate are listed. A certificate of two entries is for the domains of both.
func TestTrustDomains(t *testing.T) {
	own, partner, anybody := certificate("own", true), certificate("partner", true), certificate("anybody", true)
	m := trusting(partner, anybody)
	m.TrustDomainAliases = []string{"old.local"}
	settings := func(m *meshconfig.MeshConfig) map[string]string {
		s := &snapshot.Settings{Mesh: m, TrustDomain: "cluster.local", Roots: []string{own}}
		found := map[string]string{}
		for _, text := range encodeAnchors(s) {
			a := mesh.ParseTrustAnchor(text)
			found[map[string]string{
				own:     "own",
				partner: "partner",
				anybody: "anybody",
			}[a.PEM]] = strings.Join(a.Domains, " ")
		}
		return found
	}
	if diff := cmp.Diff(map[string]string{"own": "", "partner": "", "anybody": ""}, settings(m)); diff != "" {
		t.Errorf("for all: -want +got:\n%s", diff)
	}
	m.CaCertificates[0].TrustDomains = []string{"partner.example", "cluster.partner"}
	m.CaCertificates = append(m.CaCertificates, &meshconfig.MeshConfig_CertificateData{
		TrustDomains: []string{"cluster.partner", "third.example"}, CertificateData: &meshconfig.MeshConfig_CertificateData_Pem{
			Pem: partner,
		},
	}, &meshconfig.MeshConfig_CertificateData{
		TrustDomains: []string{"not one\n"}, CertificateData: &meshconfig.MeshConfig_CertificateData_Pem{
			Pem: certificate("nobody", true),
		},
	})
	want := map[string]string{
		"own": "cluster.local old.local", "partner": "cluster.partner partner.example third.example",
		"anybody": "cluster.local cluster.partner old.local partner.example third.example",
	}
	if diff := cmp.Diff(want, settings(m)); diff != "" {
		t.Errorf("for some: -want +got:\n%s", diff)
	}
}

// TestTrustBundles: no roots are sent before all bundles are known. A bundle that could never be
// fetched contributes no authority.
func TestTrustBundles(t *testing.T) {
	const address, other = "https://a.example/bundle", "https://b.example/bundle"
	a := certificate("a", true)
	m := &meshconfig.MeshConfig{CaCertificates: []*meshconfig.MeshConfig_CertificateData{
		{CertificateData: &meshconfig.MeshConfig_CertificateData_SpiffeBundleUrl{SpiffeBundleUrl: address}},
		{CertificateData: &meshconfig.MeshConfig_CertificateData_SpiffeBundleUrl{SpiffeBundleUrl: other}},
	}}
	if diff := cmp.Diff([]string{address, other}, Addresses(m)); diff != "" {
		t.Errorf("addresses: -want +got:\n%s", diff)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	world, g := fixture.New(t, nil, text), NewGenerator()
	for _, step := range []struct {
		known map[string]string
		want  string // "none" for no ProxyConfig at all
	}{
		{nil, "none"},
		{map[string]string{address: a}, "none"},
		{map[string]string{address: a, other: ""}, a},
		{map[string]string{address: "", other: ""}, ""},
	} {
		world.Send(mesh.Event{Settings: &mesh.Settings{Bundles: step.known}})
		got := "none"
		for _, r := range g.All(world.View(fixture.Proxy(t, nil))) {
			got = strings.Join(
				golden.Decode(t, r).(*meshconfig.ProxyConfig).CaCertificatesPem,
				"",
			) //nolint:forcetypeassert // it is one
		}
		if got != step.want {
			t.Errorf("%v: trusts %q, want %q", step.known, got, step.want)
		}
	}
}
