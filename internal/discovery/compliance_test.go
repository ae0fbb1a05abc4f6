package discovery

import (
	"crypto/tls"
	"testing"
)

// TestCompliance performs TLS handshakes of different clients with the port of a control plane that
// has a compliance policy.
func TestCompliance(t *testing.T) {
	fips := []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	for _, c := range []struct {
		policy string
		client string
		config *tls.Config
		ok     bool
	}{
		{"", "1.3", &tls.Config{MinVersion: tls.VersionTLS13}, true},
		{"fips-140-2", "1.3", &tls.Config{MinVersion: tls.VersionTLS13}, false},
		{"fips-140-2", "AES", &tls.Config{CipherSuites: fips, CurvePreferences: []tls.CurveID{tls.CurveP256}}, true},
		{"fips-140-2", "another curve", &tls.Config{CipherSuites: fips, CurvePreferences: []tls.CurveID{tls.X25519}}, false},
		{"fips-140-2", "ChaCha20", &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}}, false},
		{"fips-140-3", "1.3", &tls.Config{MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.CurveP384}}, true},
		{"fips-140-3", "another curve", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, false},
		{"pqc", "1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		{"pqc", "a classic exchange", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256}}, false},
		{"pqc", "a hybrid one", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}}, true},
	} {
		t.Run(c.policy+" "+c.client, func(t *testing.T) {
			l := startLaptop(t, func(o *Options) { o.TLS.Compliance = c.policy })
			c.config.RootCAs, c.config.ServerName, c.config.NextProtos = l.roots(), "istiod.istio-system.svc", []string{"h2"}
			conn, err := tls.Dial("tcp", l.secure, c.config)
			if (err == nil) != c.ok {
				t.Errorf("the handshake: %v", err)
			}
			if err == nil {
				_ = conn.Close() // nothing was sent on it
			}
		})
	}
}
