package identity

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
)

// appendRoot appends to a certificate chain the root that signed it, as Istio's agent does: peers
// and tools that print the presented chain (openssl s_client -showcerts) find the root as the last
// certificate. roots may have several. The chain is returned unchanged if it contains the root
// already, or none of roots signed it. An error is returned if either text cannot be parsed.
func appendRoot(chain, roots []byte) ([]byte, error) {
	certificates, err := secret.ParseCertificates(chain)
	if err != nil {
		return nil, err
	}
	candidates, err := secret.ParseCertificates(roots)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(certificates) {
		for _, root := range candidates {
			if c.Equal(root) {
				return chain, nil
			}
			if c.CheckSignatureFrom(root) == nil {
				return secret.JoinCertificates(chain, secret.EncodeCertificate(root))
			}
		}
	}
	return chain, nil
}
