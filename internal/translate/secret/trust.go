package secret

import (
	"crypto/x509"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// trust is a set of trusted certificates.
type trust struct {
	// anchors are certificates, revoked revocation lists or nil; both PEM.
	anchors, revoked []byte
	// certificates are the parsed certificates of anchors, nil where Go cannot parse one.
	// anchorsKey is the data key of anchors.
	certificates []*x509.Certificate
	anchorsKey   string
}

// trustRows returns the data keys of trusted certificates: Istio's, and the usual ones.
func trustRows() []row {
	return []row{{needed: []string{"cacert"}, extra: "crl"}, {needed: []string{"ca.crt"}, extra: "ca.crl"}}
}

// trustOf parses the trusted certificates of an object, with faults as in pairOf. If the key is
// missing or empty, the result is zero. An unusable revocation list is an Error: without it,
// revoked certificates would be trusted.
func trustOf(object *config.Config) (trust, []fault) {
	data := dataOf(object)
	r, faults := chooseRow(data, trustRows())
	if len(faults) > 0 {
		return trust{}, faults
	}
	t := trust{anchors: data[r.needed[0]], revoked: data[r.extra], anchorsKey: r.needed[0]}
	t.certificates, faults = certificatesOf(t.anchorsKey, t.anchors)
	if len(t.revoked) > 0 {
		if reason := checkRevocations(t.revoked); reason != "" {
			faults = append(faults, fault{config.Error, r.extra, reason})
		}
	}
	return t, faults
}
