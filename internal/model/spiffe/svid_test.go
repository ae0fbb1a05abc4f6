package spiffe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// uris encodes subject alternative names of the kind URI, whatever they hold.
func uris(critical bool, names ...string) pkix.Extension {
	var all []asn1.RawValue
	for _, n := range names {
		all = append(all, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(n)})
	}
	value, err := asn1.Marshal(all)
	if err != nil {
		panic(err)
	}
	return pkix.Extension{Id: oidSubjectAltName, Critical: critical, Value: value}
}

func leaf(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotAfter:              time.Now().Add(time.Hour),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		ExtraExtensions:       []pkix.Extension{uris(true, "spiffe://td/ns/a/sa/b")},
	}
	change(c)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Skipf("no certificate that Go reads: %v", err)
	}
	return c
}

// TestLeaf breaks one rule of X509-SVID at a time. T-SVID.
func TestLeaf(t *testing.T) {
	san := func(e pkix.Extension) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{e} }
	}
	named := func(c *x509.Certificate) { c.Subject = pkix.Name{Organization: []string{"x"}} }
	for name, tt := range map[string]struct {
		change func(*x509.Certificate)
		ok     bool
	}{
		"good":                     {func(*x509.Certificate) {}, true},
		"with a subject":           {named, true},
		"subject, not critical":    {func(c *x509.Certificate) { named(c); san(uris(false, "spiffe://td/a"))(c) }, true},
		"no extended usage":        {func(c *x509.Certificate) { c.ExtKeyUsage = nil }, true},
		"encipherment besides":     {func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageKeyEncipherment }, true},
		"no subject, not critical": {san(uris(false, "spiffe://td/a")), false},
		"no URI":                   {func(c *x509.Certificate) { c.ExtraExtensions, c.DNSNames = nil, []string{"a"} }, false},
		"no names at all":          {func(c *x509.Certificate) { named(c); c.ExtraExtensions = nil }, false},
		"two IDs":                  {san(uris(true, "spiffe://td/a", "spiffe://td/b")), false},
		"the same twice":           {san(uris(true, "spiffe://td/a", "spiffe://td/a")), false},
		"an ID and another URI":    {san(uris(true, "spiffe://td/a", "https://a")), false},
		"another scheme":           {san(uris(true, "https://td/a")), false},
		"upper-case scheme":        {san(uris(true, "SPIFFE://td/a")), false},
		"upper-case trust domain":  {san(uris(true, "spiffe://TD/a")), false},
		"no path":                  {san(uris(true, "spiffe://td")), false},
		"slash as path":            {san(uris(true, "spiffe://td/")), false},
		"percent":                  {san(uris(true, "spiffe://td/%61")), false},
		"query":                    {san(uris(true, "spiffe://td/a?b")), false},
		"port":                     {san(uris(true, "spiffe://td:1/a")), false},
		"authority":                {func(c *x509.Certificate) { c.IsCA = true }, false},
		"signs certificates":       {func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }, false},
		"signs lists":              {func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCRLSign }, false},
		"no key usage":             {func(c *x509.Certificate) { c.KeyUsage = 0 }, false},
		"no signatures":            {func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }, false},
		"usage not critical":       {notCritical, true},
		"for servers alone":        {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }, false},
		"for clients alone":        {func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[1:] }, false},
		"for code":                 {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }, false},
		"for what nobody knows": {func(c *x509.Certificate) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = nil, []asn1.ObjectIdentifier{{1, 2, 3}}
		}, false},
		"alternative names: garbage": {san(pkix.Extension{Id: oidSubjectAltName, Critical: true, Value: []byte{0x30, 0}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := LeafID(leaf(t, tt.change))
			if (err == nil) != tt.ok || (err == nil) == id.IsZero() {
				t.Errorf("it is %s, %v", id, err)
			}
		})
	}
}

func notCritical(c *x509.Certificate) {
	c.KeyUsage = 0
	c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: oidKeyUsage, Value: []byte{3, 2, 7, 0x80}})
}

func TestSigner(t *testing.T) {
	authority := func(c *x509.Certificate) { c.IsCA, c.KeyUsage, c.ExtraExtensions = true, x509.KeyUsageCertSign, nil }
	for name, tt := range map[string]struct {
		change func(*x509.Certificate)
		ok     bool
	}{
		"good":           {authority, true},
		"with an ID":     {func(c *x509.Certificate) { authority(c); c.URIs = []*url.URL{{Scheme: "spiffe", Host: "td"}} }, true},
		"a leaf":         {func(*x509.Certificate) {}, false},
		"no keyCertSign": {func(c *x509.Certificate) { authority(c); c.KeyUsage = x509.KeyUsageCRLSign }, false},
		"with a leaf's ID": {func(c *x509.Certificate) {
			authority(c)
			c.ExtraExtensions = []pkix.Extension{uris(true, "spiffe://td/a")}
		}, false},
		"with two": {func(c *x509.Certificate) {
			authority(c)
			c.ExtraExtensions = []pkix.Extension{uris(true, "spiffe://a", "spiffe://b")}
		}, false},
		"not an authority": {func(c *x509.Certificate) { authority(c); c.IsCA = false }, false},
		"usage not critical": {func(c *x509.Certificate) {
			authority(c)
			c.KeyUsage = 0
			c.ExtraExtensions = []pkix.Extension{{Id: oidKeyUsage, Value: []byte{3, 2, 2, 4}}}
		}, true},
		"no key usage": {func(c *x509.Certificate) { authority(c); c.KeyUsage = 0 }, true},
		"empty key usage": {func(c *x509.Certificate) {
			authority(c)
			c.KeyUsage = 0
			c.ExtraExtensions = []pkix.Extension{{Id: oidKeyUsage, Value: []byte{3, 1, 0}}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckSigner(leaf(t, tt.change)); (err == nil) != tt.ok {
				t.Error(err)
			}
		})
	}
}
