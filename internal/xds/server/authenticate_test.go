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

// TestStreamsAreAuthenticated: before anything is read of them, in both modes, and with what the client sent along.
func TestStreamsAreAuthenticated(t *testing.T) {
	const web = "spiffe://cluster.local/ns/default/sa/web"
	admitted := make(chan Hello, 10)
	h := serve(t, 1, Options{
		Authenticate: func(ctx context.Context) ([]string, string, error) {
			if _, ok := peer.FromContext(ctx); !ok {
				t.Error("the connection is not to be seen")
			}
			md, _ := sent.FromIncomingContext(ctx)
			if !slices.Equal(md.Get("authorization"), []string{"Bearer good"}) {
				return nil, "", status.Error(codes.Unauthenticated, "who are you")
			}
			return []string{web}, "east", nil
		},
		Admit: func(p *mesh.Proxy, hello Hello) error {
			admitted <- hello
			if p.Name == "p2" {
				return status.Error(codes.PermissionDenied, "you are another")
			}
			p.Metadata.ServiceAccount = "web"
			return nil
		},
	})
	inBothModes(t, func(t *testing.T, mode stream.Mode) {
		nobody := h.connectAs(t.Context(), mode, testNode(1))
		if err := nobody.wantEnd(); status.Code(err) != codes.Unauthenticated { // without a request
			t.Errorf("nobody is told %v", err)
		}
		good := sent.AppendToOutgoingContext(t.Context(), "authorization", "Bearer good")
		other := h.connectAs(good, mode, testNode(2))
		other.ask(api.ClusterType, nil, nil)
		if err := other.wantEnd(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("who is another is told %v", err)
		}
		<-admitted
		c := h.connectAs(good, mode, testNode(1))
		c.ask(api.ClusterType, nil, nil)
		c.want(api.ClusterType)
		if hello := <-admitted; !slices.Equal(hello.Identities, []string{web}) || hello.Secure ||
			hello.Cluster != "east" {
			t.Errorf("it is admitted as %+v", hello)
		}
		list := h.server.Connections()
		if len(list) != 1 || list[0].Proxy.Metadata.ServiceAccount != "web" {
			t.Errorf("%d connections: what was proved is not in them", len(list))
		}
		c.end()
		_ = c.wantEnd()
		h.wait("it is gone", func() bool { return len(h.server.Connections()) == 0 })
	})
}
