package secret

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// certificatesOf parses the CERTIFICATE blocks in the PEM text under a data key of an object, and
// skips other blocks. A well-formed certificate that Go cannot parse is nil in the list, with a
// Warning, because Envoy's library may be less strict. A malformed one is nil too, with an Error. A
// text without any is an Error.
func certificatesOf(key string, text []byte) (list []*x509.Certificate, faults []fault) {
	for _, block := range pemBlocks(text) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err == nil:
		case !isSigned(block.Bytes):
			faults = append(faults, fault{config.Error, key, fmt.Sprintf("block %d is not a certificate", len(list)+1)})
		default:
			faults = append(
				faults,
				fault{config.Warning, key, fmt.Sprintf("certificate %d cannot be checked: %v", len(list)+1, err)},
			)
			c = nil
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		faults = append(faults, fault{config.Error, key, "has no certificate in PEM"})
	}
	return list, faults
}

// isSigned reports whether der has the outer structure of signed X.509 objects (RFC 5280, section
// 4.1: content, algorithm, signature).
func isSigned(der []byte) bool {
	var v struct {
		ToBeSigned, Algorithm asn1.RawValue
		Signature             asn1.BitString
	}
	rest, err := asn1.Unmarshal(der, &v)
	return err == nil && len(rest) == 0
}

// checkRevocations returns why Envoy would refuse revocation lists in PEM, or "". It refuses a text
// without any, or with one that cannot be parsed. PEM blocks of other types are ignored.
func checkRevocations(text []byte) string {
	lists := 0
	for _, block := range pemBlocks(text) {
		if block.Type != "X509 CRL" {
			continue
		}
		if lists++; !isSigned(block.Bytes) {
			return fmt.Sprintf("block %d is not a revocation list", lists)
		}
	}
	if lists == 0 {
		return "has no revocation list in PEM"
	}
	return ""
}

// isStaple reports whether der is a successful OCSP response with a body (RFC 6960, section 4.2.1).
func isStaple(der []byte) bool {
	var v struct {
		Status asn1.Enumerated
		Body   asn1.RawValue `asn1:"explicit,tag:0"`
	}
	rest, err := asn1.Unmarshal(der, &v)
	return err == nil && len(rest) == 0 && v.Status == 0
}

// pemBlocks returns the PEM blocks in text, in order, nil if there are none. Text between them and
// malformed blocks are skipped.
func pemBlocks(text []byte) []*pem.Block {
	var list []*pem.Block
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return list
		}
		list = append(list, block)
	}
}

// privateKey parses the first private key in a PEM text: PKCS #8, RSA (PKCS #1) or EC; other blocks
// are skipped. If it is missing, encrypted or cannot be read, key is nil, and reason says why,
// without quoting the text.
func privateKey(text []byte) (key crypto.Signer, reason string) {
	for _, block := range pemBlocks(text) {
		var parsed any
		var err error
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return nil, "is encrypted, and no password is configured"
		case block.Type == "PRIVATE KEY":
			parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case block.Type == "RSA PRIVATE KEY":
			parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case block.Type == "EC PRIVATE KEY":
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		default:
			continue // the parameters of a curve, or certificates
		}
		signer, ok := parsed.(crypto.Signer)
		if err != nil || !ok {
			return nil, "is not a private key that can be read"
		}
		return signer, ""
	}
	return nil, "has no private key in PEM"
}

// checkPublicKey returns why Envoy refuses a certificate with the key (RSA below 2048 bits, or the
// curve P-224), or "" if it does not. It returns "" for other types of keys.
func checkPublicKey(public crypto.PublicKey) string {
	const rsaBits = 2048
	switch k := public.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < rsaBits {
			return fmt.Sprintf("has an RSA key of %d bits; Envoy wants %d or more", n, rsaBits)
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P224() {
			return "has an ECDSA key on the curve P-224; Envoy wants P-256, P-384 or P-521"
		}
	}
	return ""
}

// matchesKey reports whether public is the public key of key.
func matchesKey(public crypto.PublicKey, key crypto.Signer) bool {
	own, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && own.Equal(public)
}
