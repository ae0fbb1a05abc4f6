package secret

import (
	"crypto/x509"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// pair is a certificate with its key.
type pair struct {
	// chain is the certificate and those that vouch for it, key its private key, both PEM. staple is an OCSP response,
	// DER, perhaps nil.
	chain, key, staple []byte
	// certificates are those of chain, which is under chainKey; nil where one could not be read here.
	certificates []*x509.Certificate
	chainKey     string
}

// pairRows are where an object has a pair: as Istio had it first, and as a Secret of the type kubernetes.io/tls has it.
func pairRows() []row {
	return []row{{needed: []string{"cert", "key"}}, {needed: []string{"tls.crt", "tls.key"}, extra: "tls.ocsp-staple"}}
}

// pairOf reads the pair of an object.
//
// Errors are what Envoy surely refuses. It would refuse other resources of the same response with it, so such a pair is
// not even sent. What only Go's library cannot read is sent, for Envoy to judge.
func pairOf(object *config.Config) (pair, []fault) {
	data := dataOf(object)
	r, faults := choose(data, pairRows())
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
		if reason := unsupported(public); reason != "" {
			faults = append(faults, fault{config.Error, chain, reason})
		}
		if private != nil && !matches(public, private) {
			faults = append(faults, fault{config.Error, key, "is not the key of the certificate in " + chain})
		}
	}
	if len(p.staple) > 0 && !stapled(p.staple) {
		faults = append(faults, fault{config.Warning, r.extra, "is not an OCSP response that says something, and is left out"})
		p.staple = nil
	}
	return p, faults
}
