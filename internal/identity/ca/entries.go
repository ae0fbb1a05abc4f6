package ca

import (
	"errors"
)

// The names of an authority's files in a directory, and of the entries of a Secret. The second set is that of Secrets of the type
// kubernetes.io/tls, as cert-manager writes them.
const (
	certificateName = "ca-cert.pem"
	keyName         = "ca-key.pem"
	chainName       = "cert-chain.pem"
	rootsName       = "root-cert.pem"
	revokedName     = "ca-crl.pem"

	tlsCertificateName = "tls.crt"
	tlsKeyName         = "tls.key"
	tlsRootsName       = "ca.crt"
)

// errNoAuthority says that a place holds nothing of an authority.
var errNoAuthority = errors.New("there is no ca-key.pem and no tls.key")

// filesOf takes an authority's files out of entries with the names of either set. errNoAuthority: there is no key.
func filesOf(entry func(name string) []byte) (Files, error) {
	f := Files{Certificate: entry(certificateName), Key: entry(keyName), Chain: entry(chainName), Roots: entry(rootsName), Revoked: entry(revokedName)}
	if len(f.Key) > 0 {
		return f, nil
	}
	f = Files{Certificate: entry(tlsCertificateName), Key: entry(tlsKeyName), Roots: entry(tlsRootsName), Revoked: f.Revoked}
	if len(f.Key) == 0 {
		return Files{}, errNoAuthority
	}
	return f, nil
}

// entries gives the files under the names of the first set.
func (f Files) entries() map[string][]byte {
	list := map[string][]byte{certificateName: f.Certificate, keyName: f.Key, chainName: f.Chain, rootsName: f.Roots}
	if len(f.Revoked) > 0 {
		list[revokedName] = f.Revoked
	}
	return list
}
