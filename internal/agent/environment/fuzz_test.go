package environment

import "testing"

// FuzzFile parses a machine's cluster.env and then its variables.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"A=b\n# c\nexport D='e f'\n", `ISTIO_META_X="a\"b"`, "=", "A", "A='", "ISTIO_SERVICE_CIDR=*\nISTIO_INBOUND_PORTS=1,x", "POD_NAMESPACE=x\nISTIO_METAJSON_A={\"a\":1}", "CANONICAL_SERVICE=\x00",
		"PROXY_CONFIG={}\nSECRET_TTL=1h\nECC_SIGNATURE_ALGORITHM=ECDSA", "SECRET_GRACE_PERIOD_RATIO=NaN", "SECRET_TTL=-1h\nINSTANCE_IP=::1%eth0", "ISTIO_CPU_LIMIT=1e9",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		vars, err := ParseFile(text)
		if err != nil {
			return
		}
		for name := range vars {
			if name == "" {
				t.Errorf("%q has a variable without a name", text)
			}
		}
		e, err := Parse(WithMachineDefaults(vars, "host"))
		if err == nil && (e.Security.GraceRatio < 0 || e.Security.GraceRatio > 1 || e.Security.GraceRatio != e.Security.GraceRatio) {
			t.Errorf("%q: certificates are renewed at %v of their life", text, e.Security.GraceRatio)
		}
	})
}
