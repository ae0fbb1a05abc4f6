package certificate

import (
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// TestNamesHaveKinds: Envoy compares a name with those of its kind alone, so a wrong kind would
// turn everybody away.
func TestNamesHaveKinds(t *testing.T) {
	for name, want := range map[string]tlsv3.SubjectAltNameMatcher_SanType{
		"spiffe://cluster.local/ns/a/sa/b": tlsv3.SubjectAltNameMatcher_URI,
		"reviews.example.com":              tlsv3.SubjectAltNameMatcher_DNS,
		"*.example.com":                    tlsv3.SubjectAltNameMatcher_DNS,
		"10.0.0.1":                         tlsv3.SubjectAltNameMatcher_IP_ADDRESS,
		"fd00::1":                          tlsv3.SubjectAltNameMatcher_IP_ADDRESS,
		"admin@example.com":                tlsv3.SubjectAltNameMatcher_EMAIL,
	} {
		m := Validation([]string{name}, "").GetMatchTypedSubjectAltNames()
		if len(m) != 1 || m[0].GetSanType() != want || m[0].GetMatcher().GetExact() != name {
			t.Errorf("%s: got %v, want %s", name, m, want)
		}
	}
}
