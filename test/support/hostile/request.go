package hostile

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strings"
)

// Requests generates requests for certificates. It is for one goroutine.
type Requests struct {
	*rand.Rand
	good []*requester // whose keys an authority may sign for
	weak []*requester
}

// requester is a key and well-formed requests of it.
type requester struct {
	key      crypto.Signer
	requests [][]byte
}

// NewRequests makes the keys and the well-formed requests that mutations start from.
func NewRequests(seed uint64) (*Requests, error) {
	g := &Requests{Rand: rand.New(rand.NewPCG(seed, 37))}
	for _, c := range []elliptic.Curve{elliptic.P256(), elliptic.P384()} {
		if err := g.addECDSA(&g.good, c); err != nil {
			return nil, err
		}
	}
	for _, c := range []elliptic.Curve{elliptic.P224(), elliptic.P521()} {
		if err := g.addECDSA(&g.weak, c); err != nil {
			return nil, err
		}
	}
	_, ed, err := ed25519.GenerateKey(cryptorand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an Ed25519 key: %w", err)
	}
	key, err := rsa.GenerateKey(cryptorand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("make an RSA key: %w", err)
	}
	g.good = append(g.good, &requester{key: ed}, &requester{key: key})
	for _, r := range slices.Concat(g.good, g.weak) {
		for _, template := range hostileTemplates() {
			der, err := x509.CreateCertificateRequest(cryptorand.Reader, template, r.key)
			if err != nil {
				return nil, fmt.Errorf("make a request: %w", err)
			}
			r.requests = append(r.requests, der)
		}
	}
	return g, nil
}

func (g *Requests) addECDSA(to *[]*requester, c elliptic.Curve) error {
	k, err := ecdsa.GenerateKey(c, cryptorand.Reader)
	if err != nil {
		return fmt.Errorf("make an ECDSA key: %w", err)
	}
	*to = append(*to, &requester{key: k})
	return nil
}

// hostileTemplates request properties that a workload must not have.
func hostileTemplates() []*x509.CertificateRequest {
	victim := &url.URL{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/istio-system/sa/istiod"}
	extension := func(value []byte, id ...int) pkix.Extension {
		return pkix.Extension{Id: id, Critical: true, Value: value}
	}
	isCA, _ := asn1.Marshal(
		struct{ IsCA bool }{true},
	) // of a fixed value
	mayIssue, _ := asn1.Marshal(
		asn1.BitString{Bytes: []byte{0x06}, BitLength: 7},
	) // keyCertSign, cRLSign
	usages, _ := asn1.Marshal(
		[]asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 3}, {1, 3, 6, 1, 5, 5, 7, 3, 9}, {2, 5, 29, 37, 0}},
	) // code, OCSP, any
	many := &x509.CertificateRequest{}
	for i := range 60 {
		many.DNSNames = append(many.DNSNames, fmt.Sprintf("host-%d.example.com", i))
	}
	return []*x509.CertificateRequest{
		{},
		{URIs: []*url.URL{victim}},
		{
			URIs:     []*url.URL{victim, {Scheme: "spiffe", Host: "evil", Path: "/x"}},
			DNSNames: []string{"istiod.istio-system.svc", "*"},
		},
		{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, EmailAddresses: []string{"admin@example.com"}},
		{Subject: pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}}},
		{ExtraExtensions: []pkix.Extension{extension(isCA, 2, 5, 29, 19), extension(mayIssue, 2, 5, 29, 15)}},
		{ExtraExtensions: []pkix.Extension{extension(usages, 2, 5, 29, 37), extension([]byte{5, 0}, 1, 2, 3, 4)}},
		many,
	}
}

// Request is a generated request.
type Request struct {
	// Text is the CSR as it is sent.
	Text string
	// Kind names how it was made.
	Kind string
}

// Next generates a request.
func (g *Requests) Next() Request {
	from := g.good
	if g.IntN(6) == 0 {
		from = g.weak
	}
	by := pickOne(g.Rand, from)
	der := pickOne(g.Rand, by.requests)
	kind := "well-formed"
	if roots, ok := parseDER(der); ok && len(roots) == 1 && g.IntN(8) > 0 {
		root := roots[0]
		switch n := g.IntN(10); {
		case n < 6: // only the signed part changes, and is signed again: it gets past the signature
			kind = "signed again"
			for range 1 + g.IntN(3) {
				mutateTree(g.Rand, root.children[0])
			}
			g.signRequest(root, by.key)
		case n < 9:
			kind = "mutated"
			for range 1 + g.IntN(4) {
				mutateTree(g.Rand, root)
			}
		default:
			kind = "spliced"
			if other, ok := parseDER(pickOne(g.Rand, pickOne(g.Rand, g.good).requests)); ok {
				root.children[g.IntN(len(root.children))] = other[0].children[g.IntN(3)]
			}
		}
		der = root.appendTo(nil)
	}
	text, wrapped := g.wrapRequest(der)
	return Request{Text: text, Kind: kind + wrapped}
}

// signRequest replaces the signature of a request by one over its current content.
func (*Requests) signRequest(root *element, key crypto.Signer) {
	if len(root.children) < 3 {
		return
	}
	message := root.children[0].appendTo(nil)
	hash, digest := crypto.Hash(0), message
	if _, isEd := key.(ed25519.PrivateKey); !isEd {
		sum := sha256.Sum256(message)
		hash, digest = crypto.SHA256, sum[:]
		if k, ok := key.(*ecdsa.PrivateKey); ok && k.Curve != elliptic.P256() { // the algorithm must match the curve
			root.children[1] = &element{
				tag:      tagSequence,
				children: []*element{{tag: tagOID, content: []byte{0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02}}},
			}
		}
	}
	signature, err := key.Sign(cryptorand.Reader, digest, hash)
	if err != nil {
		return
	}
	root.children[2] = &element{tag: tagBitString, content: append([]byte{0}, signature...)}
}

// wrapRequest writes a request in PEM, mostly well.
func (g *Requests) wrapRequest(der []byte) (text, kind string) {
	block := &pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}
	good := string(pem.EncodeToMemory(block))
	switch g.IntN(30) {
	case 0:
		block.Type = pickOne(
			g.Rand,
			[]string{"NEW CERTIFICATE REQUEST", "CERTIFICATE", "PRIVATE KEY", "", "CERTIFICATE REQUEST\n"},
		)
		return string(pem.EncodeToMemory(block)), ", type"
	case 1:
		block.Headers = map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "x"}
		return string(pem.EncodeToMemory(block)), ", headers"
	case 2:
		return good + good, ", twice"
	case 3:
		return good[:g.IntN(len(good))], ", cut"
	case 4:
		return strings.Repeat("-----BEGIN CERTIFICATE REQUEST-----\n", 500), ", begins"
	case 5:
		i := g.IntN(len(good))
		return strings.ToValidUTF8(good[:i]+string(rune(g.IntN(256)))+good[i:], ""), ", noise"
	case 6:
		return strings.Repeat(" ", 60_000) + good, ", long"
	default:
		return good, ""
	}
}
