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
		{name: "TLSV1_2", policy: Policy{MinVersion: "TLSV1_2"}, version: tls.VersionTLS12},
		{name: "TLSV1_3", policy: Policy{MinVersion: "TLSV1_3"}, version: tls.VersionTLS13},
		{name: "1.2", policy: Policy{MinVersion: "1.2"}, version: tls.VersionTLS12},
		{name: "1.3", policy: Policy{MinVersion: "1.3"}, version: tls.VersionTLS13},
		{name: "1.1", policy: Policy{MinVersion: "1.1"}, invalid: 1, version: tls.VersionTLS12},
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
	for compliance, want := range map[string]struct {
		least, most uint16
		curves      []tls.CurveID
	}{
		"":              {least: tls.VersionTLS13},
		complianceFIPS:  {tls.VersionTLS12, tls.VersionTLS12, []tls.CurveID{tls.CurveP256}},
		complianceFIPS3: {tls.VersionTLS12, tls.VersionTLS13, []tls.CurveID{tls.CurveP256, tls.CurveP384}},
		compliancePQC:   {tls.VersionTLS13, tls.VersionTLS13, []tls.CurveID{tls.X25519MLKEM768}},
	} {
		p := Policy{MinVersion: "TLSV1_3", Compliance: compliance}
		if errs := p.Validate(); len(errs) > 0 {
			t.Errorf("%q: errors %v", compliance, errs)
		}
		c := &tls.Config{MinVersion: p.MinVersionID()}
		p.ApplyCompliance(c)
		if c.MinVersion != want.least || c.MaxVersion != want.most || !slices.Equal(c.CurvePreferences, want.curves) {
			t.Errorf("%q: versions %x to %x, curves %v", compliance, c.MinVersion, c.MaxVersion, c.CurvePreferences)
		}
		if fips := compliance == complianceFIPS || compliance == complianceFIPS3; fips != (len(c.CipherSuites) == 4) {
			t.Errorf("%q: cipher suites %v", compliance, c.CipherSuites)
		}
	}
}
