package discovery

import (
	"crypto/tls"
	"fmt"
)

// Policies that COMPLIANCE_POLICY may name; they are Istio's.
const (
	complianceFIPS = "fips-140-2"
	compliancePQC  = "pqc"
)

// checkCompliance returns an error if policy is not a known compliance policy or empty.
func checkCompliance(policy string) error {
	switch policy {
	case "", complianceFIPS, compliancePQC:
		return nil
	}
	return fmt.Errorf("COMPLIANCE_POLICY %q: want %s or %s", policy, complianceFIPS, compliancePQC)
}

// comply restricts TLS versions, cipher suites and curves of the control plane's own ports to the
// values that the policy permits. It must be applied last, so that no flag can extend them again.
func comply(policy string, c *tls.Config) {
	switch policy {
	case complianceFIPS:
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		c.CipherSuites = []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		}
		c.CurvePreferences = []tls.CurveID{tls.CurveP256}
	case compliancePQC:
		c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
		c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	}
}
