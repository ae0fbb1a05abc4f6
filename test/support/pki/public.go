package pki

import (
	"crypto"
	"crypto/x509"
)

// public is a key without its private half: as in a certificate request.
type public struct {
	crypto.Signer
	key crypto.PublicKey
}

func (p public) Public() crypto.PublicKey { return p.key }

// Sign returns a certificate for another key, in PEM. For unset fields of the template see
// [Pair.Issue].
func (p *Pair) Sign(key crypto.PublicKey, template *x509.Certificate) []byte {
	return p.IssueTo(public{key: key}, template).CertificatePEM()
}
