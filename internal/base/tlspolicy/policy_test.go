package tlspolicy

import (
	"crypto/tls"
	"slices"
	"testing"
)

func TestPolicy(t *testing.T) {
	for _, test := range []struct {
		name    string
		policy  Policy
		invalid int
		version uint16
		suites  []uint16
	}{
		{name: "default", version: tls.VersionTLS12},
		{name: "TLS 1.3", policy: Policy{MinVersion: "TLSV1_3"}, version: tls.VersionTLS13},
		{
			name: "a suite", policy: Policy{CipherSuites: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}},
			version: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
		},
		{name: "an insecure suite", policy: Policy{CipherSuites: []string{"TLS_RSA_WITH_RC4_128_SHA"}}, invalid: 1, version: tls.VersionTLS12},
		{
			name:   "all invalid",
			policy: Policy{MinVersion: "SSL3", CipherSuites: []string{"ROT13"}, Compliance: "rot13"}, invalid: 3, version: tls.VersionTLS12,
		},
	} {
		if errs := test.policy.Validate(); len(errs) != test.invalid {
			t.Errorf("%s: errors %v, want %d", test.name, errs, test.invalid)
		}
		if v, s := test.policy.MinVersionID(), test.policy.CipherSuiteIDs(); v != test.version || !slices.Equal(s, test.suites) {
			t.Errorf("%s: version %x, suites %x; want %x, %x", test.name, v, s, test.version, test.suites)
		}
	}
}

func TestComplianceOverridesTheOtherFields(t *testing.T) {
	for compliance, want := range map[string]uint16{"": tls.VersionTLS13, complianceFIPS: tls.VersionTLS12, compliancePQC: tls.VersionTLS13} {
		p := Policy{MinVersion: "TLSV1_3", Compliance: compliance}
		c := &tls.Config{MinVersion: p.MinVersionID()}
		p.ApplyCompliance(c)
		if c.MinVersion != want || (compliance != "") != (len(c.CurvePreferences) == 1 && c.MaxVersion == want) {
			t.Errorf("%q: versions %x to %x, curves %v", compliance, c.MinVersion, c.MaxVersion, c.CurvePreferences)
		}
	}
}
