package server

import (
	"context"
	"crypto/tls"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestIdentityIsProvenOverTLS: a proxy has an identity, and with it a vote in quarantine, only if
// it has proven it over TLS. Credentials that it sends in plain text prove nothing.
func TestIdentityIsProvenOverTLS(t *testing.T) {
	s := serveTLS(t, TLS{})
	plain := serve(
		t,
		1,
		Options{Authenticate: func(context.Context) ([]string, string, error) { return []string{ours}, "", nil }},
	)
	for _, c := range []struct {
		name string
		h    *harness
		tls  *tls.Config
		want string
	}{
		{"a certificate", s.harness, s.client(shown(t, s.ca, ours)), ours},
		{"no certificate", s.harness, s.client(nil), ""},
		{"plain text", plain, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o []grpc.DialOption
			if c.tls != nil {
				o = append(o, grpc.WithTransportCredentials(credentials.NewTLS(c.tls)))
			}
			proxy := open(t, c.h.dial(o...), stream.Delta, testNode(1))
			proxy.start()
			list := c.h.server.Connections()
			if len(list) != 1 || list[0].Proxy.Identity != c.want {
				t.Fatalf("connections = %+v, want one with identity %q", list, c.want)
			}
			proxy.end()
			_ = proxy.wantEnd()
			c.h.wait("the connection is closed", func() bool { return len(c.h.server.Connections()) == 0 })
		})
	}
}
