package secret

import (
	"crypto/x509"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// pair is a certificate with its private key.
type pair struct {
	// chain is the certificate with its intermediates, key its private key, both PEM. staple is an
	// OCSP response in DER, perhaps nil.
	chain, key, staple []byte
	// certificates are the parsed certificates of chain, nil where Go cannot parse one. chainKey is
	// the data key of chain.
	certificates []*x509.Certificate
	chainKey     string
}

// pairRows returns the data keys of a pair: Istio's, and the keys of Secrets of the type
// kubernetes.io/tls.
func pairRows() []row {
	return []row{{needed: []string{"cert", "key"}}, {needed: []string{"tls.crt", "tls.key"}, extra: "tls.ocsp-staple"}}
}

// pairOf parses the certificate and private key of an object. If a key is missing or empty, the
// pair is zero.
//
// Errors are faults for which Envoy is certain to refuse the Secret. It would refuse other
// resources of the same response with it, so such a pair is not sent. What only Go's library cannot
// parse is sent, and Envoy decides. An invalid OCSP staple is dropped with a Warning.
func pairOf(object *config.Config) (pair, []fault) {
	data := dataOf(object)
	r, faults := chooseRow(data, pairRows())
	if len(faults) > 0 {
		return pair{}, faults
	}
	chain, key := r.needed[0], r.needed[1]
	p := pair{chain: data[chain], key: data[key], staple: data[r.extra], chainKey: chain}
	p.certificates, faults = certificatesOf(chain, p.chain)
	private, reason := privateKey(p.key)
	if reason != "" {
		faults = append(faults, fault{config.Error, key, reason})
	}
	if len(p.certificates) > 0 && p.certificates[0] != nil {
		public := p.certificates[0].PublicKey
		if reason := checkPublicKey(public); reason != "" {
			faults = append(faults, fault{config.Error, chain, reason})
		}
		if private != nil && !matchesKey(public, private) {
			faults = append(faults, fault{config.Error, key, "is not the key of the certificate in " + chain})
		}
	}
	if len(p.staple) > 0 && !isStaple(p.staple) {
		faults = append(
			faults,
			fault{config.Warning, r.extra, "is not an OCSP response with a status, and is ignored"},
		)
		p.staple = nil
	}
	return p, faults
}
