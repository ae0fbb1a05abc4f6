package mesh

import "testing"

func TestClientCertificate(t *testing.T) {
	for text, want := range map[string]CertificateFiles{
		`{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}`: {Chain: "/c", Key: "/k", Roots: "/r"},
		`{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k"}`:                               {},
		`{"TLS_CLIENT_ROOT_CERT": "/r"}`:                                                        {},
		`{}`:                                                                                    {},
	} {
		m, bad := ParseNodeMetadata([]byte(text))
		if got := m.ClientCertificate(); got != want || len(bad) > 0 {
			t.Errorf("%s: %+v (bad: %v), want %+v", text, got, bad, want)
		}
	}
}
