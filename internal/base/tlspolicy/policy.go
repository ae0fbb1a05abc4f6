package tlspolicy

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Policy configures TLS of the control plane's own ports. MeshConfig configures TLS between
// proxies.
type Policy struct {
	// MinVersion is 1.2 (the default) or 1.3, or TLSV1_2 or TLSV1_3 (--tls-min-version).
	MinVersion string
	// CipherSuites are names of TLS 1.2 cipher suites. If empty, the defaults of crypto/tls are
	// used (--tls-cipher-suites).
	CipherSuites []string
	// Compliance is fips-140-2, fips-140-3, pqc, or empty for none. It overrides the other fields
	// (COMPLIANCE_POLICY).
	Compliance string
}

// Validate returns an error for an unknown minimum version, one for each cipher suite that is
// unknown or insecure, and one for an unknown compliance policy. An empty version or policy is
// valid. It returns nil if all is valid.
func (p Policy) Validate() []error {
	var errs []error
	switch p.MinVersion {
	case "", "1.2", "1.3", "TLSV1_2", "TLSV1_3":
	default:
		errs = append(errs, fmt.Errorf("--tls-min-version %q: want 1.2 or 1.3", p.MinVersion))
	}
	var known []string
	for _, s := range tls.CipherSuites() {
		known = append(known, s.Name)
	}
	for _, s := range p.CipherSuites {
		if !slices.Contains(known, s) {
			errs = append(errs, fmt.Errorf("--tls-cipher-suites %q: unknown or insecure; known are %s", s,
				strings.Join(known, ", ")))
		}
	}
	switch p.Compliance {
	case "", complianceFIPS, complianceFIPS3, compliancePQC:
	default:
		errs = append(errs, fmt.Errorf("COMPLIANCE_POLICY %q: want %s, %s or %s", p.Compliance, complianceFIPS,
			complianceFIPS3, compliancePQC))
	}
	return errs
}

// MinVersionID returns MinVersion as a value of crypto/tls. The policy must be valid. By default it
// is TLS 1.2.
func (p Policy) MinVersionID() uint16 {
	if p.MinVersion == "1.3" || p.MinVersion == "TLSV1_3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// CipherSuiteIDs returns CipherSuites as values of crypto/tls, in the order of that package, and
// nil if there are none. The policy must be valid.
func (p Policy) CipherSuiteIDs() []uint16 {
	var ids []uint16
	for _, s := range tls.CipherSuites() {
		if slices.Contains(p.CipherSuites, s.Name) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
