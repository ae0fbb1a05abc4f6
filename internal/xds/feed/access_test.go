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
		{"nobody by default", Access{}, ids(istiod), codes.PermissionDenied},
		{"nobody by default, plain text", Access{}, plain("127.0.0.1:1"), codes.Unauthenticated},
		{"by its identity", one, ids(istiod), codes.OK},
		{"one of its identities", one, ids("spiffe://x/y", istiod), codes.OK},
		{"another identity", one, ids("spiffe://cluster.local/ns/default/sa/reviews"), codes.PermissionDenied},
		{"begins like it", one, ids(istiod + "-canary"), codes.PermissionDenied},
		{"no certificate", one, ids(), codes.Unauthenticated},
		{"all of a namespace", all, ids(istiod + "-canary"), codes.OK},
		{"a namespace that begins like it", all, ids("spiffe://cluster.local/ns/istio-system-2/sa/istiod"), codes.PermissionDenied},
		{"the pattern itself is no identity", all, ids("spiffe://cluster.local/ns/istio-system/sa/"), codes.PermissionDenied},
		{"a star without a slash is none", Access{Identities: []string{"*"}}, ids(istiod), codes.PermissionDenied},
		{"identities say nothing in plain text", one, server.Hello{Peer: "127.0.0.1:1", Identities: []string{istiod}}, codes.Unauthenticated},
		{"loopback", Access{PlainText: PlainTextLoopback}, plain("127.0.0.1:40000"), codes.OK},
		{"loopback, IPv6", Access{PlainText: PlainTextLoopback}, plain("[::1]:40000"), codes.OK},
		{"loopback, IPv4 in IPv6", Access{PlainText: PlainTextLoopback}, plain("[::ffff:127.0.0.1]:40000"), codes.OK},
		{"not loopback", Access{PlainText: PlainTextLoopback}, plain("10.0.0.1:40000"), codes.Unauthenticated},
		{"an address that is none", Access{PlainText: PlainTextLoopback}, plain("bufconn"), codes.Unauthenticated},
		{"loopback is no way around TLS", Access{PlainText: PlainTextLoopback}, ids(), codes.Unauthenticated},
		{"anyone", Access{PlainText: PlainTextAnyone}, plain("10.0.0.1:40000"), codes.OK},
	} {
		if got := status.Code(tt.access.checkClient(tt.hello)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.shows, got, tt.want)
		}
	}
}
