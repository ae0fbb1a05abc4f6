package spiffe_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

func TestParseBundle(t *testing.T) {
	encode := func(p *pki.Pair) string { return base64.StdEncoding.EncodeToString(p.Certificate.Raw) }
	a, b := encode(pki.Authority("a")), encode(pki.Authority("b"))
	leaf := encode(pki.SelfSigned(&x509.Certificate{Subject: pkix.Name{CommonName: "leaf"}}))
	key := func(x5c string) string { return `{"kty": "EC", "use": "x509-svid", "x5c": [` + x5c + `]}` }
	for name, test := range map[string]struct {
		keys string // or a whole document
		want int
		says string
	}{
		"one":                         {key(`"` + a + `"`), 1, ""},
		"two, and of other uses":      {key(`"`+a+`"`) + `, {"use": "jwt-svid", "kid": "k"}, {"kty": "RSA"}, ` + key(`"`+b+`"`), 2, ""},
		"none for X.509":              {`{"use": "jwt-svid"}`, 0, "no key for X.509-SVIDs"},
		"two certificates of one key": {key(`"` + a + `", "` + b + `"`), 0, "key 0 has 2 certificates"},
		"none of a key":               {key(""), 0, "key 0 has 0 certificates"},
		"garbage":                     {key(`"AAAA"`), 0, "key 0 has an invalid certificate"},
		"a leaf beside an authority":  {key(`"`+a+`"`) + ", " + key(`"`+leaf+`"`), 0, "key 1 has a certificate (x5c) that is not a CA certificate"},
		"another document":            {`{"issuer": "x"}`, 0, "is not a SPIFFE bundle"},
		"a page":                      {"<html>", 0, "is not a SPIFFE bundle"},
		"too many":                    {strings.Repeat(key(`"`+a+`"`)+", ", 100) + key(`"`+a+`"`), 0, "more than 100"},
	} {
		document := test.keys
		if !strings.HasPrefix(document, `{"issuer`) && !strings.HasPrefix(document, "<") {
			document = fmt.Sprintf(`{"keys": [%s], "spiffe_sequence": 1, "spiffe_refresh_hint": 300}`, test.keys)
		}
		list, err := spiffe.ParseBundle([]byte(document))
		if len(list) != test.want || (err == nil) != (test.says == "") ||
			err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %d authorities, %v; want %d, %q", name, len(list), err, test.want, test.says)
		}
	}
}
