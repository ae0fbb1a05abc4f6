package ca

import (
	"errors"
)

// File names of an authority in a directory, and keys of its Secret. Secrets of type
// kubernetes.io/tls have the tls names, as cert-manager writes them.
const (
	certificateName = "ca-cert.pem"
	keyName         = "ca-key.pem"
	chainName       = "cert-chain.pem"
	rootsName       = "root-cert.pem"
	crlName         = "ca-crl.pem"

	tlsCertificateName = "tls.crt"
	tlsKeyName         = "tls.key"
	tlsRootsName       = "ca.crt"
)

// errNoAuthority means that a KeyStore has no key.
var errNoAuthority = errors.New("neither ca-key.pem nor tls.key exists")

// filesFrom returns the authority's files from entries with the names of a TLS Secret, or, if these
// have no key, with Istio's names, as istiod does. The revocation lists have Istio's name in both
// cases; a TLS Secret has no Chain. entry returns nil for a missing one. It returns errNoAuthority
// if neither set has a key.
func filesFrom(entry func(name string) []byte) (Files, error) {
	f := Files{
		Certificate:     entry(tlsCertificateName),
		Key:             entry(tlsKeyName),
		Roots:           entry(tlsRootsName),
		RevocationLists: entry(crlName),
	}
	if len(f.Key) > 0 {
		return f, nil
	}
	f = Files{
		Certificate:     entry(certificateName),
		Key:             entry(keyName),
		Chain:           entry(chainName),
		Roots:           entry(rootsName),
		RevocationLists: f.RevocationLists,
	}
	if len(f.Key) == 0 {
		return Files{}, errNoAuthority
	}
	return f, nil
}

// entries returns the content of the files by Istio's names. It leaves out the revocation lists if
// there are none.
func (f Files) entries() map[string][]byte {
	list := map[string][]byte{certificateName: f.Certificate, keyName: f.Key, chainName: f.Chain, rootsName: f.Roots}
	if len(f.RevocationLists) > 0 {
		list[crlName] = f.RevocationLists
	}
	return list
}
