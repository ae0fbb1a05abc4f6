package server

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	sent "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// TestStreamsAreAuthenticated: in both modes, a stream is authenticated from its connection and
// metadata before any request of it is read.
func TestStreamsAreAuthenticated(t *testing.T) {
	const web = "spiffe://cluster.local/ns/default/sa/web"
	admitted := make(chan Hello, 10)
	h := serve(t, 1, Options{
		Authenticate: func(ctx context.Context) ([]string, string, error) {
			if _, ok := peer.FromContext(ctx); !ok {
				t.Error("the context of Authenticate has no peer")
			}
			md, _ := sent.FromIncomingContext(ctx)
			if !slices.Equal(md.Get("authorization"), []string{"Bearer good"}) {
				return nil, "", status.Error(codes.Unauthenticated, "no valid token")
			}
			return []string{web}, "east", nil
		},
		Admit: func(p *mesh.Proxy, hello Hello) error {
			admitted <- hello
			if p.Name == "p2" {
				return status.Error(codes.PermissionDenied, "not the owner of this node")
			}
			p.Metadata.ServiceAccount = "web"
			return nil
		},
	})
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		unauthenticated := h.connectAs(t.Context(), mode, testNode(1))
		if err := unauthenticated.wantEnd(); status.Code(err) != codes.Unauthenticated { // without a request
			t.Errorf("stream without credentials ended with %v, want Unauthenticated", err)
		}
		good := sent.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good")
		other := h.connectAs(good, mode, testNode(2))
		other.ask(api.ClusterType, nil, nil)
		if err := other.wantEnd(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("stream with the identity of another proxy ended with %v, want PermissionDenied", err)
		}
		<-admitted
		c := h.connectAs(good, mode, testNode(1))
		c.ask(api.ClusterType, nil, nil)
		c.want(api.ClusterType)
		if hello := <-admitted; !slices.Equal(hello.Identities, []string{web}) || hello.Secure ||
			hello.Cluster != "east" {
			t.Errorf("Admit got %+v, want identity %s of cluster east", hello, web)
		}
		list := h.server.Connections()
		if len(list) != 1 || list[0].Proxy.Metadata.ServiceAccount != "web" {
			t.Errorf("got %d connections, want one with service account web", len(list))
		}
		c.end()
		_ = c.wantEnd()
		h.wait("the connection is closed", func() bool { return len(h.server.Connections()) == 0 })
	})
}
