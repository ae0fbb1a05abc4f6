package feed

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/server"
)

func TestAccess(t *testing.T) {
	const istiod = "spiffe://cluster.local/ns/istio-system/sa/istiod"
	ids := func(list ...string) server.Hello {
		return server.Hello{Secure: true, Peer: "127.0.0.1:1", Identities: list}
	}
	plain := func(peer string) server.Hello { return server.Hello{Peer: peer} }
	one, all := Access{
		Identities: []string{istiod},
	}, Access{
		Identities: []string{"spiffe://cluster.local/ns/istio-system/sa/*"},
	}
	for _, tt := range []struct {
		shows  string
		access Access
		hello  server.Hello
		want   codes.Code
	}{
		{"no identity is accepted by default", Access{}, ids(istiod), codes.PermissionDenied},
		{"no plain text by default", Access{}, plain("127.0.0.1:1"), codes.Unauthenticated},
		{"accepted identity", one, ids(istiod), codes.OK},
		{"one of several identities is accepted", one, ids("spiffe://x/y", istiod), codes.OK},
		{"identity that is not accepted", one, ids("spiffe://cluster.local/ns/default/sa/reviews"), codes.PermissionDenied},
		{"accepted identity is only a prefix", one, ids(istiod + "-canary"), codes.PermissionDenied},
		{"no certificate", one, ids(), codes.Unauthenticated},
		{"namespace wildcard", all, ids(istiod + "-canary"), codes.OK},
		{"namespace wildcard, namespace with the same prefix", all, ids("spiffe://cluster.local/ns/istio-system-2/sa/istiod"), codes.PermissionDenied},
		{"namespace wildcard, empty service account", all, ids("spiffe://cluster.local/ns/istio-system/sa/"), codes.PermissionDenied},
		{"star alone matches no identity", Access{Identities: []string{"*"}}, ids(istiod), codes.PermissionDenied},
		{"identities are ignored in plain text", one, server.Hello{Peer: "127.0.0.1:1", Identities: []string{istiod}}, codes.Unauthenticated},
		{"loopback", Access{PlainText: PlainTextLoopback}, plain("127.0.0.1:40000"), codes.OK},
		{"loopback, IPv6", Access{PlainText: PlainTextLoopback}, plain("[::1]:40000"), codes.OK},
		{"loopback, IPv4 in IPv6", Access{PlainText: PlainTextLoopback}, plain("[::ffff:127.0.0.1]:40000"), codes.OK},
		{"not loopback", Access{PlainText: PlainTextLoopback}, plain("10.0.0.1:40000"), codes.Unauthenticated},
		{"unparsable peer address", Access{PlainText: PlainTextLoopback}, plain("bufconn"), codes.Unauthenticated},
		{"loopback without certificate on the TLS port", Access{PlainText: PlainTextLoopback}, ids(), codes.Unauthenticated},
		{"anyone", Access{PlainText: PlainTextAnyone}, plain("10.0.0.1:40000"), codes.OK},
	} {
		if got := status.Code(tt.access.checkClient(tt.hello)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.shows, got, tt.want)
		}
	}
}
