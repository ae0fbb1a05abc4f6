package tlspolicy

import "crypto/tls"

// Policies that COMPLIANCE_POLICY may name; they are Istio's.
const (
	complianceFIPS  = "fips-140-2"
	complianceFIPS3 = "fips-140-3"
	compliancePQC   = "pqc"
)

// ApplyCompliance restricts c to the compliance policy, and does nothing without one. fips-140-2
// permits TLS 1.2 with four AES-GCM cipher suites and P-256. fips-140-3 also permits TLS 1.3, whose
// cipher suites only GODEBUG=fips140=only restricts, and P-384. pqc permits only TLS 1.3 with
// X25519MLKEM768. It must be called last, so that no other setting can extend them again.
func (p Policy) ApplyCompliance(c *tls.Config) {
	switch p.Compliance {
	case complianceFIPS:
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		c.CipherSuites = fipsCipherSuites()
		c.CurvePreferences = []tls.CurveID{tls.CurveP256}
	case complianceFIPS3:
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS13
		c.CipherSuites = fipsCipherSuites()
		c.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384}
	case compliancePQC:
		c.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
		c.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	}
}

// fipsCipherSuites returns the cipher suites of TLS 1.2 that FIPS 140 permits.
func fipsCipherSuites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	}
}
