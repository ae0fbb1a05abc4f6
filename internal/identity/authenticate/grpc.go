package authenticate

import (
	"context"
	"crypto/tls"
	"net/netip"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// RequestFromContext returns the Request of a gRPC call from its handler's context. Fields that the
// context does not have are empty, but Header is never nil.
func RequestFromContext(ctx context.Context) Request {
	md, _ := metadata.FromIncomingContext(ctx)
	r := Request{Header: md.Get}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return r
	}
	if p.Addr != nil {
		r.Peer = parseAddress(p.Addr.String())
	}
	r.TLS = tlsState(p.AuthInfo)
	return r
}

// tlsState returns the TLS state of a connection, or nil for plain text and unknown AuthInfo. It
// reads gRPC's own AuthInfo and types with a method TLS, which wrap it.
func tlsState(info credentials.AuthInfo) *tls.ConnectionState {
	switch info := info.(type) {
	case credentials.TLSInfo:
		return &info.State
	case interface{ TLS() *tls.ConnectionState }:
		return info.TLS()
	}
	return nil
}

// parseAddress returns the IP address of a host:port text, an IPv4-mapped one as IPv4. It returns
// the zero value if the text is invalid or has a host name.
func parseAddress(hostPort string) netip.Addr {
	p, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}
