package secret

import (
	"crypto/x509"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// trust is certificates to trust.
type trust struct {
	// anchors are certificates, revoked lists of revoked ones, perhaps nil; both PEM.
	anchors, revoked []byte
	// certificates are those of anchors, which are under anchorsKey; nil where one could not be read here.
	certificates []*x509.Certificate
	anchorsKey   string
}

// trustRows are where an object has certificates to trust: as Istio had them first, and as others write them.
func trustRows() []row {
	return []row{{needed: []string{"cacert"}, extra: "crl"}, {needed: []string{"ca.crt"}, extra: "ca.crl"}}
}

// trustOf reads the certificates to trust of an object. Faults are as pairOf has them. A revocation list that cannot be
// used is an Error: without it more would be trusted.
func trustOf(object *config.Config) (trust, []fault) {
	data := dataOf(object)
	r, faults := choose(data, trustRows())
	if len(faults) > 0 {
		return trust{}, faults
	}
	t := trust{anchors: data[r.needed[0]], revoked: data[r.extra], anchorsKey: r.needed[0]}
	t.certificates, faults = certificatesOf(t.anchorsKey, t.anchors)
	if len(t.revoked) > 0 {
		if reason := revocations(t.revoked); reason != "" {
			faults = append(faults, fault{config.Error, r.extra, reason})
		}
	}
	return t, faults
}
