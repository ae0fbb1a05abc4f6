package discovery

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// authorityPair is an authority provided by an operator.
type authorityPair struct{ *pki.Pair }

func newPluggedAuthority(t *testing.T, name string) *authorityPair {
	t.Helper()
	return &authorityPair{pki.Authority(name)}
}

// files returns the data of the Secret cacerts.
func (p *authorityPair) files(roots ...*authorityPair) map[string][]byte {
	f := map[string][]byte{"ca-cert.pem": p.CertificatePEM(), "ca-key.pem": p.KeyPEM()}
	for _, r := range roots {
		f["root-cert.pem"] = append(f["root-cert.pem"], r.CertificatePEM()...)
	}
	return f
}
