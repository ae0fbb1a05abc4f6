package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestCertificatesContainNothingOfTheRequest: names, extensions and usages in a signing request do
// not appear in the certificate. T-CA-SAN.
func TestCertificatesContainNothingOfTheRequest(t *testing.T) {
	scorecard.Check(t, 37)
	id := parseID(t, "spiffe://cluster.local/ns/shop/sa/web")
	uri := func(text string) []*url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []*url.URL{u}
	}
	extension := func(oid asn1.ObjectIdentifier, value any) []pkix.Extension {
		der, err := asn1.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return []pkix.Extension{{Id: oid, Critical: true, Value: der}}
	}
	many := &x509.CertificateRequest{}
	for i := range 100 {
		many.DNSNames = append(many.DNSNames, fmt.Sprintf("host-%d.example.com", i))
	}
	type ca struct{ IsCA bool }
	for name, template := range map[string]*x509.CertificateRequest{
		"nothing":           {},
		"its own identity":  {URIs: uri(id.String())},
		"another identity":  {URIs: uri("spiffe://cluster.local/ns/istio-system/sa/istiod")},
		"another domain":    {URIs: uri("spiffe://evil/ns/shop/sa/web")},
		"two identities":    {URIs: append(uri(id.String()), uri("spiffe://cluster.local/ns/x/sa/y")...)},
		"DNS names":         {DNSNames: []string{"istiod.istio-system.svc", "*.example.com"}},
		"addresses":         {IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}},
		"mail":              {EmailAddresses: []string{"root@example.com"}},
		"a subject":         {Subject: pkix.Name{CommonName: "istiod.istio-system.svc", Organization: []string{"system:masters"}}},
		"100 names":         many,
		"to be authority":   {ExtraExtensions: extension(asn1.ObjectIdentifier{2, 5, 29, 19}, ca{true})},
		"key usage":         {ExtraExtensions: extension(asn1.ObjectIdentifier{2, 5, 29, 15}, asn1.BitString{Bytes: []byte{6}, BitLength: 7})},
		"code signing":      {ExtraExtensions: extension(asn1.ObjectIdentifier{2, 5, 29, 37}, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 3}})},
		"control chars":     {ExtraExtensions: []pkix.Extension{names(t, "spiffe://cluster.local/ns/shop/sa/web\x00.evil", "a\nb", "\x7f")}},
		"not even names":    {ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: []byte(strings.Repeat("x", 1000))}}},
		"empty alternative": {ExtraExtensions: []pkix.Extension{names(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			a := authority(t, selfSigned(t), AuthorityOptions{})
			key := pki.NewKey()
			i, err := a.Issue(t.Context(), Request{ID: id, CSR: request(t, template, key)})
			if err != nil {
				if name == "control chars" || name == "empty alternative" { // Go does not read such requests
					return
				}
				t.Fatal(err)
			}
			lint(t, i, id, time.Now())
			if !samePublicKey(i.Chain[0].PublicKey, key.Public()) {
				t.Error("the certificate is for another key")
			}
		})
	}
}

// names encodes subject alternative names of the kind URI, whatever they hold.
func names(t *testing.T, list ...string) pkix.Extension {
	all := []asn1.RawValue{}
	for _, n := range list {
		all = append(all, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(n)})
	}
	value, err := asn1.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}
}

// forged returns a request whose public key is not the one of its signature.
func forged(t *testing.T, key any) []byte {
	t.Helper()
	block, _ := pem.Decode(request(t, &x509.CertificateRequest{}, nil))
	var r struct {
		Info struct {
			Raw     asn1.RawContent
			Version int
			Subject asn1.RawValue
			Key     asn1.RawValue
			Rest    asn1.RawValue `asn1:"tag:0"`
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(block.Bytes, &r); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	r.Info.Raw, r.Info.Key = nil, asn1.RawValue{FullBytes: der}
	if der, err = asn1.Marshal(r); err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestHostileRequests: each is refused, before anything is computed with its key.
func TestHostileRequests(t *testing.T) {
	scorecard.Check(t, 37)
	t.Setenv("GODEBUG", "rsa1024min=0") // to create the weak keys that clients may send
	good := request(t, &x509.CertificateRequest{}, nil)
	n := rsaKey(t, 2048).N
	ec := func(c elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	bad := append([]byte{}, good...)
	block, _ := pem.Decode(good)
	block.Bytes[len(block.Bytes)-5] ^= 1
	for name, csr := range map[string][]byte{
		"nothing":             nil,
		"no PEM":              []byte("hello"),
		"empty PEM":           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST"}),
		"garbage in PEM":      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("hello")}),
		"another block":       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}),
		"two requests":        append(append([]byte{}, good...), good...),
		"more behind it":      append(append([]byte{}, bad...), "x"...),
		"bad signature":       pem.EncodeToMemory(block),
		"another's key":       forged(t, pki.NewKey().Public()),
		"more than 64 KB":     request(t, &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, 64<<10)}}}, nil),
		"64 KB of comments":   append([]byte(strings.Repeat("comment\n", 8<<10+1)), good...),
		"RSA of 1024 bits":    request(t, &x509.CertificateRequest{}, rsaKey(t, 1024)),
		"RSA of 2047 bits":    forged(t, &rsa.PublicKey{N: new(big.Int).Rsh(n, 1), E: 65537}),
		"RSA of 16384 bits":   forged(t, &rsa.PublicKey{N: new(big.Int).Lsh(n, 16384-2048), E: 65537}),
		"RSA with exponent 1": forged(t, &rsa.PublicKey{N: n, E: 1}),
		"RSA with exponent 2": forged(t, &rsa.PublicKey{N: n, E: 2}),
		"RSA, even modulus":   forged(t, &rsa.PublicKey{N: new(big.Int).Sub(n, big.NewInt(1)), E: 65537}),
		"P-224":               request(t, &x509.CertificateRequest{}, ec(elliptic.P224())),
		"P-521":               request(t, &x509.CertificateRequest{}, ec(elliptic.P521())),
	} {
		t.Run(name, func(t *testing.T) {
			a := authority(t, selfSigned(t), AuthorityOptions{})
			began := time.Now()
			i, err := a.Issue(t.Context(), Request{ID: parseID(t, "spiffe://cluster.local/ns/a/sa/b"), CSR: csr})
			var r *IssueError
			if !errors.As(err, &r) || r.Code != codes.InvalidArgument || i.Chain != nil {
				t.Errorf("got %v, %v", i, err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestKeysThatAreSignedFor(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"P-256": pki.NewKey(), "P-384": p384, "Ed25519": ed, "RSA": rsaKey(t, 2048)} {
		for what, kind := range map[string]KeyType{"ECDSA": {}, "RSA": {RSABits: 2048}} {
			f, err := SelfSigned{
				TrustDomain: "cluster.local",
				Lifetime:    time.Hour,
				KeyType:     kind,
			}.NewRoot(rand.Reader, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
			i, err := authority(t, f, AuthorityOptions{}).Issue(
				t.Context(),
				Request{ID: id, CSR: request(t, &x509.CertificateRequest{}, key)},
			)
			if err != nil {
				t.Errorf("%s, signed with %s: %v", name, what, err)
				continue
			}
			lint(t, i, id, time.Now())
		}
	}
}

// TestWeakKeys: of keys of the flaws, and of 20 good ones.
func TestWeakKeys(t *testing.T) {
	close := func() *big.Int { // of two primes next to each other
		p, err := rand.Prime(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		q := new(big.Int).Set(p)
		for q.Add(q, big.NewInt(2)); !q.ProbablyPrime(20); q.Add(q, big.NewInt(2)) {
		}
		return new(big.Int).Mul(p, q)
	}
	// A power of 65537 for each of the small primes, whatever its factors are.
	product, n := big.NewInt(1), new(big.Int)
	for _, p := range smallPrimes {
		product.Mul(product, big.NewInt(p))
	}
	n.Exp(big.NewInt(65537), big.NewInt(12345), product)
	n.Add(n, new(big.Int).Lsh(product, uint(2048-product.BitLen()))) //nolint:gosec // positive
	if n.Bit(0) == 0 {
		n.Add(n, product)
	}
	if !hasCloseFactors(close()) {
		t.Error("close factors are not found")
	}
	p, err := rand.Prime(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if checkRSA(&rsa.PublicKey{N: p.Mul(p, p), E: 65537}) == nil {
		t.Error("the square of a prime is accepted")
	}
	if !isROCA(n) || checkRSA(&rsa.PublicKey{N: n, E: 65537}) == nil {
		t.Error("a modulus of the flawed library is not recognised")
	}
	for range 5 {
		if err := checkRSA(&rsaKey(t, 2048).PublicKey); err != nil {
			t.Error(err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	der, err := x509.CreateCertificateRequest(
		rand.Reader,
		&x509.CertificateRequest{DNSNames: []string{"a"}},
		pki.NewKey(),
	)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	root := selfSigned(f)
	f.Fuzz(func(t *testing.T, der []byte) {
		a := authority(t, root, AuthorityOptions{})
		id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
		i, err := a.Issue(
			t.Context(),
			Request{ID: id, CSR: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})},
		)
		if err == nil {
			lint(t, i, id, time.Now())
		}
	})
}
