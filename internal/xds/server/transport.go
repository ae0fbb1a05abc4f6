package server

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Transport is the settings of the connections that streams come on. Zero values are defaults.
type Transport struct {
	// KeepaliveInterval is how long a connection may be idle before it is probed (30 s), KeepaliveTimeout how long the
	// answer may take (10 s). --keepaliveInterval, --keepaliveTimeout.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// TLS is nil for plain text.
	TLS *tls.Config
}

const (
	// maxRequestBytes bounds a request. The biggest are those of a proxy that comes with state: about 100 bytes for each
	// resource, besides 60 KB of node.
	maxRequestBytes = 16 << 20
	// window is how much a proxy may send before it is read, and so what one that waits for its turn costs. It is the least
	// that HTTP/2 has. A fixed one costs no probing of the bandwidth.
	window = 64<<10 - 1
	// Requests are small, for the most part ACKs, but for those of proxies that come with state. In plain text a buffer is lent to
	// a connection while there is something to read; with TLS it is the connection's own.
	readBuffer, readBufferTLS = 32 << 10, 8 << 10
	// A first connection is sent megabytes. Write buffers are lent to connections while they write.
	writeBuffer = 128 << 10
	maxStreams  = 100_000
	// maxIdle closes connections without a stream.
	maxIdle = 10 * time.Minute
	// minPings is how often proxies may probe.
	minPings = 5 * time.Second
)

// ServerOptions gives the options that a gRPC server which serves ADS must be made with.
func ServerOptions(c Transport) []grpc.ServerOption {
	if c.KeepaliveInterval <= 0 {
		c.KeepaliveInterval = 30 * time.Second
	}
	if c.KeepaliveTimeout <= 0 {
		c.KeepaliveTimeout = 10 * time.Second
	}
	plainOrTLS, read := insecure.NewCredentials(), readBuffer
	if c.TLS != nil {
		plainOrTLS, read = credentials.NewTLS(c.TLS), readBufferTLS
	}
	return []grpc.ServerOption{
		grpc.Creds(linking{plainOrTLS}),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: c.KeepaliveInterval, Timeout: c.KeepaliveTimeout, MaxConnectionIdle: maxIdle,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPings, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(read),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(20 * time.Second),
	}
}
