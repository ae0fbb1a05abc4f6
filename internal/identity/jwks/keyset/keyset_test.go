package keyset

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	ec = `{"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`
	// secret is the same with its private half.
	secret    = `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}`
	ed        = `{"kty":"OKP","kid":"o","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	symmetric = `{"kty":"oct","kid":"s","k":"c2VjcmV0"}`
	canonEC   = `{"crv":"P-256","kid":"e","kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`
	canonEd   = `{"crv":"Ed25519","kid":"o","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
)

func TestDocuments(t *testing.T) {
	for name, tt := range map[string]struct {
		document           string
		published, written string // "": an error
	}{
		"a set":                          {`{"keys":[` + ec + `]}`, `{"keys":[` + canonEC + `]}`, `{"keys":[` + canonEC + `]}`},
		"one key":                        {ec, `{"keys":[` + canonEC + `]}`, `{"keys":[` + canonEC + `]}`},
		"in any order, and twice":        {`{"keys":[` + ed + `,` + ec + `,` + ed + `]}`, `{"keys":[` + canonEd + `,` + canonEC + `]}`, `{"keys":[` + canonEd + `,` + canonEC + `]}`},
		"a symmetric key":                {`{"keys":[` + symmetric + `]}`, "", `{"keys":[{"k":"c2VjcmV0","kid":"s","kty":"oct"}]}`},
		"a private half":                 {`{"keys":[` + secret + `]}`, "", `{"keys":[` + strings.Replace(canonEC, `"kid":"e",`, "", 1) + `]}`},
		"a private half beside others":   {`{"keys":[` + secret + `,` + ec + `]}`, `{"keys":[` + canonEC + `]}`, `{"keys":[` + canonEC + `,` + strings.Replace(canonEC, `"kid":"e",`, "", 1) + `]}`},
		"for encryption":                 {`{"keys":[` + strings.Replace(ec, `"kid"`, `"use":"enc","kid"`, 1) + `]}`, "", ""},
		"bad ones beside a good one":     {`{"keys":[{},{"kty":"no"},null,1,"x",[],{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},` + ec + `]}`, `{"keys":[` + canonEC + `]}`, `{"keys":[` + canonEC + `]}`},
		"a point that is not on a curve": {strings.Replace(ec, "f83O", "f83P", 1), "", ""},
		"an algorithm of another type":   {`{"keys":[` + strings.Replace(ec, `"kid"`, `"alg":"RS256","kid"`, 1) + `,` + strings.Replace(ed, `"kid"`, `"alg":"none","kid"`, 1) + `]}`, "", ""},
		"an algorithm of another curve":  {strings.Replace(ec, `"kid"`, `"alg":"ES384","kid"`, 1), "", ""},
		"a padded number":                {strings.Replace(ec, `RVEU"`, `RVEU="`, 1), `{"keys":[` + canonEC + `]}`, `{"keys":[` + canonEC + `]}`},
		"no keys":                        {`{"keys":[]}`, "", ""},
		"nothing":                        {`{}`, "", ""},
		"null":                           {`null`, "", ""},
		"keys that are no list":          {`{"keys":{}}`, "", ""},
		"not JSON":                       {`<html>`, "", ""},
		"empty":                          {``, "", ""},
		"a secret document":              {`{"token":"s3cr3t"}`, "", ""},
		"a certificate that is none":     {`{"s3cr3t":"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"}`, "", ""},
		"too many":                       {`{"keys":[` + strings.Repeat(ec+",", maxKeys) + ec + `]}`, "", ""},
	} {
		for how, want := range map[string]string{"published": tt.published, "written": tt.written} {
			read := ParsePublished
			if how == "written" {
				read = ParseInline
			}
			got, err := read([]byte(tt.document))
			if got != want || (err != nil) != (want == "") {
				t.Errorf("%s, %s: %q, %v; want %q", name, how, got, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%s: error %q quotes the input", name, err)
			}
		}
	}
}

// TestSizesOfRSA: keys that are too small, and keys that Envoy rejects, are dropped.
func TestSizesOfRSA(t *testing.T) {
	one := big.NewInt(1)
	document := func(bits uint, more int64, e int64) []byte {
		n := new(big.Int).Add(new(big.Int).Lsh(one, bits-1), big.NewInt(more))
		encode := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
		return fmt.Appendf(nil, `{"kty":"RSA","n":%q,"e":%q}`, encode(n), encode(big.NewInt(e)))
	}
	for _, tt := range []struct {
		bits    uint
		more, e int64
		good    bool
	}{
		{16, 1, 3, false}, {1023, 1, 65537, false}, {1024, 1, 65537, true}, {2048, 1, 3, true}, {4096, 1, 65537, true}, {16385, 1, 65537, false},
		{2048, 0, 65537, false}, {2048, 1, 1, false}, {2048, 1, 2, false}, {2048, 1, 1<<31 + 1, false}, {2048, 1, 1<<40 + 1, false},
	} {
		if _, err := ParsePublished(document(tt.bits, tt.more, tt.e)); (err == nil) != tt.good {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestCertificates: Google publishes PEM certificates by key ID, and the example of Istio's API
// uses them.
func TestCertificates(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(
		map[string]string{"a": certificate(t, &rsaKey.PublicKey, rsaKey), "b": certificate(t, &ecKey.PublicKey, ecKey)},
	)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ParsePublished(document)
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		t.Fatal(err)
	}
	if len(set.Key("a")) != 1 || !rsaKey.PublicKey.Equal(set.Key("a")[0].Key) || len(set.Key("b")) != 1 ||
		!ecKey.PublicKey.Equal(set.Key("b")[0].Key) {
		t.Errorf("not the keys of the certificates: %s", text)
	}
}

func certificate(t *testing.T, public, private any) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// FuzzPublished: the output is a public key set, and parses to itself.
func FuzzPublished(f *testing.F) {
	for _, seed := range []string{`{"keys":[` + ec + "," + ed + "," + symmetric + "," + secret + `]}`, ec, `{"a":"-----BEGIN"}`, "null", `{"keys":[null]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		text, err := ParsePublished(document)
		if err != nil {
			return
		}
		var set jose.JSONWebKeySet
		if err := json.Unmarshal([]byte(text), &set); err != nil || len(set.Keys) == 0 {
			t.Fatalf("%s: %v", text, err)
		}
		for _, k := range set.Keys {
			if !k.IsPublic() || !k.Valid() {
				t.Fatalf("not public: %s", text)
			}
		}
		if again, err := ParsePublished([]byte(text)); err != nil || again != text {
			t.Fatalf("read again: %q, %v; want %q", again, err, text)
		}
	})
}

func Example() {
	text, err := ParsePublished([]byte(`{"keys": [{"x5t": "unused", ` + ed[1:] + `]}`))
	fmt.Println(text, err)
	// Output: {"keys":[{"crv":"Ed25519","kid":"o","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]} <nil>
}
