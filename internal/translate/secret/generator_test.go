package secret

import (
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// manifest writes a Secret or ConfigMap as a user would.
func manifest(kind, namespace, name string, data map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nkind: %s\nmetadata: {name: %s, namespace: %s}\ndata:\n", kind, name, namespace)
	for k, v := range data {
		if kind == "Secret" {
			v = base64.StdEncoding.EncodeToString([]byte(v))
		}
		fmt.Fprintf(&b, "  %s: %q\n", k, v)
	}
	return b.String()
}

func message(t testing.TB, r *resource.Resource) *tlsv3.Secret {
	t.Helper()
	m, ok := golden.Decode(t, r).(*tlsv3.Secret)
	if !ok || m.Name != r.Name || r.TypeURL != api.SecretType {
		t.Fatalf("%s %q is %T with the name %q", r.TypeURL, r.Name, m, m.GetName())
	}
	return m
}

// said returns the content of a Secret as text: "chain key staple" or "trusts anchors revoked",
// with the test's name for each part.
func said(t testing.TB, r *resource.Resource, names map[string]string) string {
	t.Helper()
	if r == nil {
		return "nothing"
	}
	m := message(t, r)
	name := func(b []byte) string {
		if len(b) == 0 {
			return "-"
		}
		if n := names[string(b)]; n != "" {
			return n
		}
		return fmt.Sprintf("%q", b)
	}
	if v := m.GetValidationContext(); v != nil {
		return "trusts " + name(v.GetTrustedCa().GetInlineBytes()) + " " + name(v.GetCrl().GetInlineBytes())
	}
	c := m.GetTlsCertificate()
	return "serves " + name(c.GetCertificateChain().GetInlineBytes()) + " " + name(c.GetPrivateKey().GetInlineBytes()) + " " + name(c.GetOcspStaple().GetInlineBytes())
}

func TestNamed(t *testing.T) {
	a, b, key := newAuthority("a"), newAuthority("b"), pki.NewKey()
	leaf, private, revoked := a.leaf(key, longAgo, farOff), pkcs8(key), string(a.Revoke())
	staple := "\x30\x07\x0a\x01\x00\xa0\x02\x30\x00"
	names := map[string]string{
		leaf:    "leaf",
		private: "key",
		a.pem:   "a",
		b.pem:   "b",
		revoked: "revoked",
		staple:  "staple",
	}
	m := fixture.New(t, []byte(strings.Join([]string{
		manifest("Secret", "ingress", "typed", map[string]string{
			"tls.crt": leaf, "tls.key": private, "ca.crt": a.pem, "ca.crl": revoked, "tls.ocsp-staple": staple,
		}),
		manifest(
			"Secret",
			"ingress",
			"opaque",
			map[string]string{"cert": leaf, "key": private, "cacert": b.pem, "crl": revoked},
		),
		manifest("Secret", "ingress", "apart", map[string]string{"tls.crt": leaf, "tls.key": private, "ca.crt": a.pem}),
		manifest("Secret", "ingress", "apart-cacert", map[string]string{"ca.crt": b.pem}),
		manifest("Secret", "ingress", "server-only", map[string]string{"tls.crt": leaf, "tls.key": private}),
		manifest("Secret", "ingress", "broken", map[string]string{"tls.crt": leaf, "tls.key": pkcs8(pki.NewKey())}),
		manifest("Secret", "ingress", "password", map[string]string{"password": "x"}),
		manifest("Secret", "other", "theirs", map[string]string{"tls.crt": leaf, "tls.key": private, "ca.crt": a.pem}),
		manifest("ConfigMap", "other", "roots", map[string]string{"ca.crt": b.pem}),
		manifest("ConfigMap", "ingress", "pair", map[string]string{"tls.crt": leaf, "tls.key": private}),
	}, "")), nil)
	v := m.View(fixture.Proxy(t, []byte("{type: router, namespace: ingress}")))
	g := NewGenerator(SameNamespace)
	for name, want := range map[string]string{
		"kubernetes://typed":                 "serves leaf key staple",
		"kubernetes://ingress/typed":         "serves leaf key staple",
		"kubernetes-gateway://ingress/typed": "serves leaf key staple",
		"kubernetes://typed-cacert":          "trusts a revoked",
		"kubernetes://ingress/typed-cacert":  "trusts a revoked",
		"kubernetes://opaque":                "serves leaf key -",
		"kubernetes://opaque-cacert":         "trusts b revoked",
		"kubernetes://apart":                 "serves leaf key -",
		"kubernetes://apart-cacert":          "trusts b -",
		"kubernetes://server-only-cacert":    "nothing",
		"kubernetes://broken":                "nothing",
		"kubernetes://password":              "nothing",
		"kubernetes://nobody":                "nothing",
		"kubernetes://other/theirs":          "nothing",
		"kubernetes://other/theirs-cacert":   "nothing",
		"kubernetes-gateway://other/theirs":  "nothing",
		"configmap://other/roots":            "trusts b -",
		"configmap://other/roots-cacert":     "trusts b -",
		"configmap://ingress/pair":           "nothing",
		"configmap://other/theirs":           "nothing",
		"kubernetes://roots":                 "nothing",
		"default":                            "nothing",
		"ROOTCA":                             "nothing",
		"invalid://":                         "nothing",
		"file-cert:/only-one":                "nothing",
	} {
		r := g.Named(v, name)
		if got := said(t, r, names); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if r != nil && r.Name != name {
			t.Errorf("%s: has the name %q", name, r.Name)
		}
	}
}

// TestSecretsOfClusters: a proxy of a remote cluster gets the Secret of its cluster, and that of the
// config cluster if the other lacks the certificate, but not if the other's is invalid.
func TestSecretsOfClusters(t *testing.T) {
	a, b, key := newAuthority("a"), newAuthority("b"), pki.NewKey()
	leaf, private := a.leaf(key, longAgo, farOff), pkcs8(key)
	names := map[string]string{leaf: "leaf", private: "key", a.pem: "a", b.pem: "b"}
	pair := func(name string) string {
		return manifest("Secret", "ingress", name, map[string]string{"tls.crt": leaf, "tls.key": private, "ca.crt": a.pem})
	}
	m := fixture.New(t, []byte(pair("both")+pair("empty")+pair("pair-only")+pair("invalid")+pair("here")), nil)
	for name, data := range map[string]map[string]string{
		"both":           {"tls.crt": leaf, "tls.key": private, "ca.crt": b.pem},
		"empty":          {},
		"pair-only":      {"tls.crt": leaf, "tls.key": private, "cacert": ""},
		"invalid":        {"tls.crt": leaf, "tls.key": pkcs8(pki.NewKey()), "ca.crt": b.pem, "ca.crl": "x"},
		"invalid-cacert": {"cacert": b.pem, "crl": "x"},
	} {
		list, err := fixture.Decode([]byte(manifest("Secret", "ingress", name, data)))
		if err != nil {
			t.Fatal(err)
		}
		list[0].Key = mesh.RemoteSecretKey("east", "ingress", name)
		m.Send(fixture.Events(mesh.Upsert, list...)...)
	}
	g := NewGenerator(SameNamespace)
	for _, c := range []struct{ cluster, name, want string }{
		{"east", "both", "serves leaf key -"}, {"east", "both-cacert", "trusts b -"},
		{"east", "empty", "serves leaf key -"}, {"east", "empty-cacert", "trusts a -"},
		{"east", "pair-only", "serves leaf key -"}, {"east", "pair-only-cacert", "trusts a -"},
		{"east", "invalid", "nothing"}, {"east", "invalid-cacert", "nothing"},
		{"east", "here", "serves leaf key -"}, {"east", "here-cacert", "trusts a -"},
		{"", "both-cacert", "trusts a -"}, {"", "invalid", "serves leaf key -"},
	} {
		v := m.View(fixture.Proxy(t, []byte("{type: router, namespace: ingress, cluster: "+c.cluster+"}")))
		if got := said(t, g.Named(v, "kubernetes://"+c.name), names); got != c.want {
			t.Errorf("%s in cluster %q: %s, want %s", c.name, c.cluster, got, c.want)
		}
	}
}

// TestReceiversOfSecrets: in whatever order proxies of several namespaces request secrets, each
// receives only its own.
func TestReceiversOfSecrets(t *testing.T) {
	var text strings.Builder
	names := map[string]string{}
	a := newAuthority("a")
	for _, ns := range []string{"one", "two"} {
		key := pki.NewKey()
		leaf := a.leaf(key, longAgo, farOff)
		names[leaf], names[pkcs8(key)] = "leaf-"+ns, "key-"+ns
		text.WriteString(manifest("Secret", ns, "cert", map[string]string{"tls.crt": leaf, "tls.key": pkcs8(key)}))
	}
	m := fixture.New(t, []byte(text.String()), nil)
	see := func(ns string) *view.View {
		return m.View(fixture.Proxy(t, []byte("{type: router, namespace: "+ns+"}")))
	}
	asked := []struct{ namespace, name, want string }{
		{"one", "kubernetes://cert", "serves leaf-one key-one -"},
		{"two", "kubernetes://cert", "serves leaf-two key-two -"},
		{"two", "kubernetes://one/cert", "nothing"},
		{"three", "kubernetes://cert", "nothing"},
		{"three", "kubernetes://one/cert", "nothing"},
		{"three", "kubernetes-gateway://one/cert", "nothing"},
		{"one", "kubernetes://one/cert", "serves leaf-one key-one -"},
		{"", "kubernetes://cert", "nothing"},
	}
	for shift := range asked {
		g := NewGenerator(SameNamespace)
		var held []*resource.Resource // so that it stays remembered
		for i := range asked {
			c := asked[(i+shift)%len(asked)]
			v := see(c.namespace)
			if c.namespace == "" {
				v = view.Build(m.Snapshot(), view.Key{})
			}
			for _, v := range []*view.View{v, view.Build(m.Snapshot(), Scope(v.Key))} {
				r := g.Named(v, c.name)
				held = append(held, r)
				if got := said(t, r, names); got != c.want {
					t.Errorf("starting at %d, %q requests %s: got %s, want %s", shift, c.namespace, c.name, got, c.want)
				}
			}
		}
		runtime.KeepAlive(held)
	}
}

func TestPublic(t *testing.T) {
	v := view.Build(fixture.New(t, nil, nil).Snapshot(), view.Key{Namespace: "a"})
	for name, want := range map[string]bool{
		"kubernetes://a/cert": false, "kubernetes-gateway://a/cert": false, "kubernetes://a/cert-cacert": true, "configmap://b/roots": true,
		"kubernetes://b/cert-cacert": false,
	} {
		n, err := mesh.ParseSecretName(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Public(v, n); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestRotation: a changed Secret is generated again under all names that refer to it, and under no
// others. An added one is found, a deleted one is missing.
func TestRotation(t *testing.T) {
	a, key := newAuthority("a"), pki.NewKey()
	pair := func() map[string]string {
		return map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key), "ca.crt": a.pem}
	}
	m := fixture.New(
		t,
		[]byte(manifest("Secret", "default", "x", pair())+manifest("Secret", "default", "w", pair())),
		nil,
	)
	g := NewGenerator(SameNamespace)
	proxy := fixture.Proxy(t, nil)
	names := []string{
		"configmap://other/roots", "default", "kubernetes://default/x", "kubernetes://other/x", "kubernetes://w", "kubernetes://w-cacert",
		"kubernetes://x", "kubernetes://x-cacert", "kubernetes://z",
	}
	held := map[string]*resource.Resource{}
	look := func() {
		for _, n := range names {
			held[n] = g.Named(m.View(proxy), n)
		}
	}
	look()
	for _, c := range []struct {
		what  string
		apply func() (*snapshot.Snapshot, snapshot.Delta)
		want  string // the names affected
		other string // names with another result
	}{
		{"a new pair", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(t, manifest("Secret", "default", "x", pair()))
		},
			"kubernetes://default/x kubernetes://x kubernetes://x-cacert", "kubernetes://default/x kubernetes://x"},
		{"roots apart", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(
				t,
				manifest("Secret", "default", "w-cacert", map[string]string{"cacert": newAuthority("b").pem}),
			)
		}, "kubernetes://w-cacert", "kubernetes://w-cacert"},
		{"a deleted Secret", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Delete(t, "kind: Secret\nmetadata: {name: w}")
		}, "kubernetes://w kubernetes://w-cacert", "kubernetes://w"},
		{"an added Secret", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(t, manifest("Secret", "default", "z", pair()))
		},
			"kubernetes://z", "kubernetes://z"},
		{"a ConfigMap", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(t, manifest("ConfigMap", "other", "roots", map[string]string{"ca.crt": a.pem}))
		}, "configmap://other/roots", "configmap://other/roots"},
		{"a service", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(t, "kind: Service\nmetadata: {name: s}\nspec: {clusterIP: 10.96.0.1}")
		}, "", ""},
	} {
		old := m.View(proxy)
		s, d := c.apply()
		v := m.View(proxy)
		affected := g.Affected(old, v, d, names)
		if got := strings.Join(affected, " "); got != c.want {
			t.Errorf("%s: affects %q, want %q", c.what, got, c.want)
		}
		if got := Touched(old, s, d); got != (c.want != "") {
			t.Errorf("%s: touches the View %v", c.what, got)
		}
		before := map[string]*resource.Resource{}
		for n, r := range held {
			before[n] = r
		}
		look()
		var other []string
		for _, n := range names {
			was, is := before[n], held[n]
			if (was == nil) != (is == nil) || was != nil && was.Version != is.Version {
				other = append(other, n)
			}
		}
		if got := strings.Join(other, " "); got != c.other {
			t.Errorf("%s: alters %q, want %q", c.what, got, c.other)
		}
	}
	if got := g.Affected(nil, m.View(proxy), snapshot.Delta{All: true}, names); len(got) != len(names) {
		t.Errorf("a change of everything affects %d of %d names", len(got), len(names))
	}
}

// TestMadeOnce: however many Views ask, a Secret is made once, and again only when it changes.
func TestMadeOnce(t *testing.T) {
	a, key := newAuthority("a"), pki.NewKey()
	m := fixture.New(
		t,
		[]byte(manifest(
			"Secret",
			"default",
			"x",
			map[string]string{"tls.crt": a.leaf(key, longAgo, farOff), "tls.key": pkcs8(key)},
		)),
		nil,
	)
	g := NewGenerator(SameNamespace)
	first := g.Named(m.View(fixture.Proxy(t, nil)), "kubernetes://x")
	m.Apply(t, "kind: Service\nmetadata: {name: s}\nspec: {clusterIP: 10.96.0.1}")
	for _, proxy := range []string{"type: router", "locality: r/z", "network: n"} {
		if g.Named(m.View(fixture.Proxy(t, []byte(proxy))), "kubernetes://x") != first {
			t.Errorf("a proxy with %q has one of its own", proxy)
		}
	}
	if got := g.Computed(); got != 1 {
		t.Errorf("made %d times, want once", got)
	}
	want := []config.Key{{Kind: api.Secret, Namespace: "default", Name: "x"}}
	if diff := cmp.Diff(want, first.From); diff != "" {
		t.Errorf("from, -want +got:\n%s", diff)
	}
}
