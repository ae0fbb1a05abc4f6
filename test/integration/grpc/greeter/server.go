package main

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscreds "google.golang.org/grpc/credentials/xds"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/xds"
)

// anonymous is the caller without a certificate.
const nobody = "nobody in particular"

// service answers with its own name and the identity of the caller.
type service struct {
	testpb.UnimplementedTestServiceServer
	name string
}

func (s service) UnaryCall(ctx context.Context, _ *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	return &testpb.SimpleResponse{ServerId: s.name, Username: callerOf(ctx)}, nil
}

// callerOf returns the SPIFFE ID of the caller: from its certificate, or from the header of a
// sidecar (x-forwarded-client-cert).
func callerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 &&
			len(t.State.PeerCertificates[0].URIs) > 0 {
			return t.State.PeerCertificates[0].URIs[0].String()
		}
	}
	for _, said := range metadata.ValueFromIncomingContext(ctx, "x-forwarded-client-cert") {
		for part := range strings.SplitSeq(said, ";") {
			if uri, ok := strings.CutPrefix(part, "URI="); ok {
				return uri
			}
		}
	}
	return nobody
}

type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	GracefulStop()
}

// serveGreeter runs the server until end is called, which lets running calls end.
func serveGreeter(o options, c *controller, failed chan<- error) (end func(), err error) {
	var s server
	if o.xds {
		// Its listener from the control plane decides which clients it serves, and how.
		creds, err := xdscreds.NewServerCredentials(xdscreds.ServerOptions{FallbackCreds: insecure.NewCredentials()})
		if err != nil {
			return nil, err
		}
		s, err = xds.NewGRPCServer(
			grpc.Creds(creds),
			xds.ServingModeCallback(func(_ net.Addr, m xds.ServingModeChangeArgs) {
				c.ready.Store(m.Mode == connectivity.ServingModeServing)
			}),
		)
		if err != nil {
			return nil, err
		}
	} else {
		s = grpc.NewServer()
		c.ready.Store(true)
	}
	testpb.RegisterTestServiceServer(s, service{name: o.name})
	l, err := net.Listen("tcp", o.serve)
	if err != nil {
		return nil, err
	}
	go func() {
		if err := s.Serve(l); err != nil {
			failed <- err
		}
	}()
	return s.GracefulStop, nil
}
