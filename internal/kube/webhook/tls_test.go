package webhook

import (
	"crypto/tls"
	"testing"
)

// TestOldVersionsOfTLSAreRefused: clients that offer only an old version of TLS are refused. A port
// that differs only in its minimum version accepts them, so the client does not refuse the
// connection itself.
func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	ours := serveWebhook(t)
	lax := serveWebhook(t, func(o *Options) {
		o.ModifyTLS = func(c *tls.Config) { c.MinVersion = tls.VersionTLS10 }
	})
	strict := serveWebhook(t, func(o *Options) { o.MinVersion = tls.VersionTLS13 })
	for _, tt := range []struct {
		version           uint16
		ours, lax, strict bool
	}{
		{tls.VersionTLS10, false, true, false},
		{tls.VersionTLS11, false, true, false},
		{tls.VersionTLS12, true, true, false},
		{tls.VersionTLS13, true, true, true},
	} {
		accepts := func(address string) bool {
			conn, err := tls.Dial("tcp", address, &tls.Config{
				InsecureSkipVerify: true, MinVersion: tt.version, MaxVersion: tt.version, //nolint:gosec // that is the test
			})
			if err == nil {
				conn.Close()
			}
			return err == nil
		}
		for name, port := range map[string]struct {
			address string
			want    bool
		}{
			"the default": {ours, tt.ours}, "minimum TLS 1.0": {lax, tt.lax}, "minimum TLS 1.3": {strict, tt.strict},
		} {
			if got := accepts(port.address); got != port.want {
				t.Errorf("%s: %s is accepted: %t", name, tls.VersionName(tt.version), got)
			}
		}
	}
}
