package authenticate

import (
	"context"
	"crypto/tls"
	"net/netip"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// FromContext gives the request of a gRPC call, from the context that its handler has.
func FromContext(ctx context.Context) Request {
	md, _ := metadata.FromIncomingContext(ctx)
	r := Request{Header: md.Get}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return r
	}
	if p.Addr != nil {
		r.Peer = address(p.Addr.String())
	}
	r.TLS = connection(p.AuthInfo)
	return r
}

// connection gives the state of a connection with TLS. Credentials of our own wrap gRPC's and give it by a method.
func connection(info credentials.AuthInfo) *tls.ConnectionState {
	switch info := info.(type) {
	case credentials.TLSInfo:
		return &info.State
	case interface{ TLS() *tls.ConnectionState }:
		return info.TLS()
	}
	return nil
}

func address(hostPort string) netip.Addr {
	p, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}
