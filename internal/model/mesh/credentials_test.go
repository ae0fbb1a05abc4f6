package mesh

import "testing"

func TestCredentials(t *testing.T) {
	own := Credentials{"default", "ROOTCA"}
	for text, want := range map[string]struct{ client, server Credentials }{
		`{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}`: {client: Credentials{"file-cert:/c~/k", "file-root:/r"}},
		`{"TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k"}`:                               {},
		`{"TLS_CLIENT_ROOT_CERT": "/r"}`:                                                        {},
		`{}`:                                                                                    {},
		`{"ISTIO_VERSION": "1.31"}`:                                                             {client: own, server: own},
		`{"ISTIO_VERSION": "1.31", "MESHPILOT_IDENTITY": "none"}`:                               {},
		`{"ISTIO_VERSION": "1.31", "TLS_CLIENT_CERT_CHAIN": "/c", "TLS_CLIENT_KEY": "/k", "TLS_CLIENT_ROOT_CERT": "/r"}`: {
			client: Credentials{"file-cert:/c~/k", "file-root:/r"}, server: own},
		`{"TLS_SERVER_CERT_CHAIN": "/c", "TLS_SERVER_KEY": "/k", "TLS_SERVER_ROOT_CERT": "/r"}`: {server: Credentials{"file-cert:/c~/k", "file-root:/r"}},
		`{"TLS_SERVER_CERT_CHAIN": "/c", "TLS_SERVER_KEY": "/k"}`:                               {server: Credentials{"file-cert:/c~/k", "ROOTCA"}},
	} {
		m, bad := ParseNodeMetadata([]byte(text))
		if got := m.ClientCredentials(); got != want.client || len(bad) > 0 {
			t.Errorf("%s: as a client %+v (bad: %v), want %+v", text, got, bad, want.client)
		}
		if got := m.ServerCredentials(); got != want.server {
			t.Errorf("%s: as a server %+v, want %+v", text, got, want.server)
		}
	}
}
