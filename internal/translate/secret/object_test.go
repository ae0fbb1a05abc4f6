package secret

import (
	"crypto/elliptic"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

func objectOf(t testing.TB, data map[string]string) *config.Config {
	t.Helper()
	o := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		o.Data[k] = []byte(v)
	}
	c, err := config.New(config.Meta{Key: config.Key{Kind: api.Secret, Namespace: "default", Name: "s"}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type objectCase struct {
	name string
	data map[string]string
	// want are the faults, without the error texts of libraries.
	want []string
	// refused is part of Envoy's error for the unchanged data, or "" if Envoy accepts them.
	refused string
}

func pairCases(t testing.TB) []objectCase {
	t.Helper()
	a, key, rsaKey, weak := newAuthority("root"), pki.NewKey(), newRSA(t, 2048), newRSA(t, 1024)
	p224, p521, ed := newKeyOn(t, elliptic.P224()), newKeyOn(t, elliptic.P521()), newEd25519(t)
	leaf := a.leaf(key, longAgo, farOff)
	pair := func(chain, key string) map[string]string { return map[string]string{"tls.crt": chain, "tls.key": key} }
	stapled := func(response string) map[string]string {
		return map[string]string{"tls.crt": leaf, "tls.key": pkcs8(key), "tls.ocsp-staple": response}
	}
	const unsaid = "warning tls.ocsp-staple is not an OCSP response with a status, and is ignored"
	garbage := []byte("garbage")
	return []objectCase{
		{"PKCS 8", pair(leaf, pkcs8(key)), nil, ""},
		{"SEC 1", pair(leaf, sec1(t, key)), nil, ""},
		{"PKCS 1", pair(a.leaf(rsaKey, longAgo, farOff), pkcs1(rsaKey)), nil, ""},
		{"a chain", pair(leaf+a.pem, pkcs8(key)), nil, ""},
		{"comments", pair("subject=x\n"+leaf+"the end", "a key\n"+pkcs8(key)), nil, ""},
		{"lines of Windows", pair(strings.ReplaceAll(leaf, "\n", "\r\n"), pkcs8(key)), nil, ""},
		{"everything in both", pair(pkcs8(key)+leaf, leaf+pkcs8(key)), nil, ""},
		{"expired", pair(a.leaf(key, longAgo, longAgo.AddDate(1, 0, 0)), pkcs8(key)), nil, ""},
		{"P-521", pair(a.leaf(p521, longAgo, farOff), pkcs8(p521)), nil, ""},
		{"Ed25519", pair(a.leaf(ed, longAgo, farOff), pkcs8(ed)), nil, ""},
		{"P-224", pair(a.leaf(p224, longAgo, farOff), pkcs8(p224)),
			[]string{
				"error tls.crt has an ECDSA key on the curve P-224; Envoy wants P-256, P-384 or P-521",
			}, "Failed to load certificate chain"},
		{"RSA of 1024 bits", pair(a.leaf(weak, longAgo, farOff), pkcs8(weak)),
			[]string{"error tls.crt has an RSA key of 1024 bits; Envoy wants 2048 or more"}, "2048-bit or larger"},
		{
			"another's key",
			pair(leaf, pkcs8(pki.NewKey())),
			[]string{"error tls.key is not the key of the certificate in tls.crt"},
			"KEY_VALUES_MISMATCH",
		},
		{
			"a key of another kind",
			pair(leaf, pkcs8(rsaKey)),
			[]string{"error tls.key is not the key of the certificate in tls.crt"},
			"KEY_TYPE_MISMATCH",
		},
		{
			"the root first",
			pair(a.pem+leaf, pkcs8(key)),
			[]string{"error tls.key is not the key of the certificate in tls.crt"},
			"Failed to load certificate chain",
		},
		{
			"no certificate",
			pair("certificate", pkcs8(key)),
			[]string{"error tls.crt has no certificate in PEM"},
			"Failed to load certificate chain",
		},
		{"no key", pair(leaf, "key"), []string{"error tls.key has no private key in PEM"}, "NO_START_LINE"},
		{
			"garbage for a key",
			pair(leaf, pemOf("PRIVATE KEY", garbage)),
			[]string{"error tls.key is not a private key that can be read"},
			"DECODE_ERROR",
		},
		{
			"an encrypted key",
			pair(leaf, pemOf("ENCRYPTED PRIVATE KEY", garbage)),
			[]string{"error tls.key is encrypted, and no password is configured"},
			"DECODE_ERROR",
		},
		{
			"garbage for a certificate",
			pair(pemOf("CERTIFICATE", garbage), pkcs8(key)),
			[]string{"error tls.crt block 1 is not a certificate"},
			"Failed to load certificate chain",
		},
		{
			"garbage in the chain",
			pair(leaf+pemOf("CERTIFICATE", garbage), pkcs8(key)),
			[]string{"error tls.crt block 2 is not a certificate"},
			"Failed to load certificate chain",
		},
		{"no OCSP response", stapled("x"), []string{unsaid}, "OCSP"},
		{"an empty OCSP response", stapled("\x30\x00"), []string{unsaid}, "OCSP"},
		{"an OCSP response of a server that is busy", stapled("\x30\x03\x0a\x01\x03"), []string{unsaid}, "OCSP"},
	}
}

func trustCases(t testing.TB) []objectCase {
	t.Helper()
	a, b := newAuthority("root"), newAuthority("other root")
	garbage := []byte("garbage")
	return []objectCase{
		{"one", map[string]string{"ca.crt": a.pem}, nil, ""},
		{"several", map[string]string{"ca.crt": "# roots\n" + a.pem + b.pem + a.pem}, nil, ""},
		{"no authority", map[string]string{"ca.crt": a.leaf(pki.NewKey(), longAgo, farOff)}, nil, ""},
		{"revocations", map[string]string{"ca.crt": a.pem, "ca.crl": string(a.Revoke())}, nil, ""},
		{
			"no certificate",
			map[string]string{"ca.crt": "x"},
			[]string{"error ca.crt has no certificate in PEM"},
			"Failed to load trusted CA",
		},
		{
			"garbage",
			map[string]string{"ca.crt": a.pem + pemOf("CERTIFICATE", garbage)},
			[]string{"error ca.crt block 2 is not a certificate"},
			"Failed to load trusted CA",
		},
		{
			"garbage for revocations",
			map[string]string{"ca.crt": a.pem, "ca.crl": pemOf("X509 CRL", garbage)},
			[]string{"error ca.crl block 1 is not a revocation list"},
			"Failed to load CRL",
		},
	}
}

func texts(faults []fault) []string {
	var list []string
	for _, f := range faults {
		list = append(list, string(f.severity)+" "+f.key+" "+f.reason)
	}
	return list
}

// TestMaterialThatEnvoyRejects compares our validation with Envoy's result for the same data: data
// that Envoy accepts are sent, and data that it rejects are not.
func TestMaterialThatEnvoyRejects(t *testing.T) {
	check := func(c objectCase, common *tlsv3.CommonTlsContext, faults []fault) {
		t.Helper()
		if got := texts(faults); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: faults %q, want %q", c.name, got, c.want)
		}
		said := loaded(t, common)
		if (said == "") != (c.refused == "") || !strings.Contains(said, c.refused) {
			t.Errorf("%s: Envoy's error = %q, want %q", c.name, said, c.refused)
		}
		if (said == "") != (len(faults) == 0) {
			t.Errorf("%s: Envoy's error = %q, faults = %q", c.name, said, texts(faults))
		}
	}
	for _, c := range pairCases(t) {
		_, faults := pairOf(objectOf(t, c.data))
		check(c, &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{
			CertificateChain: inlineSource([]byte(c.data["tls.crt"])), PrivateKey: inlineSource([]byte(c.data["tls.key"])),
			OcspStaple: inlineSource([]byte(c.data["tls.ocsp-staple"])),
		}}}, faults)
	}
	for _, c := range trustCases(t) {
		_, faults := trustOf(objectOf(t, c.data))
		check(c, &tlsv3.CommonTlsContext{ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{
				TrustedCa: inlineSource([]byte(c.data["ca.crt"])), Crl: inlineSource([]byte(c.data["ca.crl"])),
			},
		}}, faults)
	}
}

// loaded returns Envoy's error for a TLS context, or "" if Envoy accepts it.
func loaded(t testing.TB, common *tlsv3.CommonTlsContext) string {
	t.Helper()
	binary := envoy.RequireBinary(t)
	b, err := protojson.Marshal(common)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	const socket = `{"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.`
	if len(common.TlsCertificates) > 0 {
		text.WriteString(`{"static_resources": {"listeners": [{"name": "l", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}},
			"filter_chains": [{"transport_socket": ` + socket + `DownstreamTlsContext", "common_tls_context": ` + string(b) + `}}}]}]}}`)
	} else {
		text.WriteString(
			`{"static_resources": {"clusters": [{"name": "c", "transport_socket": ` + socket + `UpstreamTlsContext", "common_tls_context": ` + string(b) + `}}}]}}`,
		)
	}
	if !json.Valid([]byte(text.String())) {
		t.Fatalf("the test writes no JSON: %s", text.String())
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(
		t.Context(),
		binary,
		"--mode",
		"validate",
		"-l",
		"critical",
		"-c",
		file,
	).CombinedOutput()
	if err == nil {
		return ""
	}
	return string(out)
}

// TestInvalidRevocations: Envoy accepts a text without any revocation list, and then checks
// nothing, which its author did not intend. So it is refused.
func TestInvalidRevocations(t *testing.T) {
	_, faults := trustOf(objectOf(t, map[string]string{"ca.crt": newAuthority("root").pem, "ca.crl": "none"}))
	if !hasError(faults) {
		t.Error("they are passed over")
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		data, want string // keys of the object; the row, or what is missing
	}{
		{"cert=x key=x", "cert"},
		{"tls.crt=x tls.key=x", "tls.crt"},
		{"cert=x key=x tls.crt=x tls.key=x", "cert"},
		{"cert=x key= tls.crt=x tls.key=x", "tls.crt"},
		{"cert=x", "error key is missing; there is cert"},
		{"cert=x key=", "error key is empty"},
		{"tls.crt=x ca.crt=x a=x b=x", "error tls.key is missing; there is a, b, ca.crt, others"},
		{"", "error tls.crt is missing; there is no data, error tls.key is missing; there is no data"},
	} {
		data := map[string][]byte{}
		for one := range strings.FieldsSeq(c.data) {
			k, v, _ := strings.Cut(one, "=")
			data[k] = []byte(v)
		}
		r, faults := chooseRow(data, pairRows())
		got := r.needed[0]
		if faults != nil {
			got = strings.Join(texts(faults), ", ")
		}
		if got != c.want {
			t.Errorf("%q: got %q, want %q", c.data, got, c.want)
		}
	}
}
