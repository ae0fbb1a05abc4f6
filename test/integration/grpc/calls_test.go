package grpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// service answers with its own name and the identity of the caller.
type service struct {
	testpb.UnimplementedTestServiceServer
	name string
}

func (s service) UnaryCall(ctx context.Context, _ *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	caller := "nobody in particular"
	if p, ok := peer.FromContext(ctx); ok {
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 && len(t.State.PeerCertificates[0].URIs) > 0 {
			caller = t.State.PeerCertificates[0].URIs[0].String()
		}
	}
	return &testpb.SimpleResponse{ServerId: s.name, Username: caller}, nil
}

// serve runs a server at the application's address. The returned channel is closed once the server has
// its configuration and accepts connections.
func (a *application) serve(t *testing.T, port int) (serving <-chan struct{}) {
	t.Helper()
	creds, err := xdscreds.NewServerCredentials(xdscreds.ServerOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	accepts := make(chan struct{})
	var once sync.Once
	server, err := xds.NewGRPCServer(grpc.Creds(creds), xds.BootstrapContentsForTesting(a.bootstrap),
		xds.ServingModeCallback(func(_ net.Addr, args xds.ServingModeChangeArgs) {
			if args.Mode == connectivity.ServingModeServing {
				once.Do(func() { close(accepts) })
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	testpb.RegisterTestServiceServer(server, service{name: a.name})
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", a.address, port))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return accepts
}

// caller calls a target.
type caller struct {
	testpb.TestServiceClient
	t *testing.T
}

// dial returns a client of the application for an xds:/// target.
func (a *application) dial(t *testing.T, target string, more ...grpc.DialOption) caller {
	t.Helper()
	builder, err := xds.NewXDSResolverWithConfigForTesting(a.bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := xdscreds.NewClientCredentials(xdscreds.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, "xds:///"+target, append(more, grpc.WithResolvers(builder), grpc.WithTransportCredentials(creds))...)
}

func dial(t *testing.T, target string, options ...grpc.DialOption) caller {
	t.Helper()
	c, err := grpc.NewClient(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return caller{testpb.NewTestServiceClient(c), t}
}

// call makes one call, with metadata as pairs of names and values.
func (c caller) call(headers ...string) (*testpb.SimpleResponse, error) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(c.t.Context(), headers...), 10*time.Second)
	defer cancel()
	return c.UnaryCall(ctx, new(testpb.SimpleRequest), grpc.WaitForReady(false))
}

// shares makes n calls and returns the number of answers by server, and of failures by code.
func (c caller) shares(n int, headers ...string) map[string]int {
	got := map[string]int{}
	for range n {
		answer, err := c.call(headers...)
		if err != nil {
			got[status.Code(err).String()]++
			continue
		}
		got[answer.GetServerId()]++
	}
	return got
}

// only waits until all calls are answered by one.
func (c caller) only(who string, headers ...string) {
	c.t.Helper()
	serving.Eventually(c.t, patience, "all calls go to "+who, func() error {
		if got := c.shares(20, headers...); got[who] != 20 {
			return fmt.Errorf("calls were answered by %v", got)
		}
		return nil
	})
}

// refused waits until calls end with a code.
func (c caller) refused(code codes.Code, headers ...string) {
	c.t.Helper()
	serving.Eventually(c.t, patience, "calls are refused", func() error {
		answer, err := c.call(headers...)
		if status.Code(err) != code {
			return fmt.Errorf("answer %v, error: %w", answer, err)
		}
		return nil
	})
}

// answered waits until a call is answered for the given caller.
func (c caller) answered(caller string, headers ...string) {
	c.t.Helper()
	serving.Eventually(c.t, patience, "an answer to "+caller, func() error {
		answer, err := c.call(headers...)
		if err != nil || answer.GetUsername() != caller {
			return fmt.Errorf("answer %v, error: %w", answer, err)
		}
		return nil
	})
}
