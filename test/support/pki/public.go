package pki

import (
	"crypto"
	"crypto/x509"
)

// public is a key of which only the public half is known: what a request for a certificate has.
type public struct {
	crypto.Signer
	key crypto.PublicKey
}

func (p public) Public() crypto.PublicKey { return p.key }

// Sign makes a certificate for somebody else's key, in PEM. What the template leaves open is as [Pair.Issue] says.
func (p *Pair) Sign(key crypto.PublicKey, template *x509.Certificate) []byte {
	return p.IssueTo(public{key: key}, template).CertificatePEM()
}
