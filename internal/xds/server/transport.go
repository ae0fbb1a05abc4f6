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
	// KeepaliveInterval is how long a connection may be idle before it is probed (30 s),
	// KeepaliveTimeout how long the answer may take (10 s). --keepaliveInterval,
	// --keepaliveTimeout.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// TLS is nil for plain text.
	TLS *tls.Config
	// Limits are the bounds of the port.
	Limits Limits
	// Anonymous serves clients that prove nothing although the port has TLS: it does not take
	// messages then that are larger than those of plain text.
	Anonymous bool
}

const (
	// window is how much a proxy may send before it is read, and so what one that waits for its
	// turn costs. It is the least that HTTP/2 has. A fixed one costs no probing of the bandwidth.
	window = 64<<10 - 1
	// Requests are small, for the most part ACKs, but for those of proxies that come with state. In
	// plain text a buffer is lent to a connection while there is something to read; with TLS it is
	// the connection's own.
	readBuffer, readBufferTLS = 32 << 10, 8 << 10
	// A first connection is sent megabytes. Write buffers are lent to connections while they write.
	writeBuffer = 128 << 10
	// maxIdle closes connections without a stream, maxIdlePlaintext those in plain text, whose
	// clients have proved nothing.
	maxIdle, maxIdlePlaintext = 10 * time.Minute, time.Minute
	// maxHeaders bounds the headers of a call, which come before anything is known of the client: a
	// token has 2 KB.
	maxHeaders = 128 << 10
	// minPings is how often proxies may probe.
	minPings = 5 * time.Second
)

// ServerOptions returns the options that a gRPC server which serves ADS must be made with. The
// server is for one port: the state of its limits is in the options.
func ServerOptions(c Transport) []grpc.ServerOption {
	if c.KeepaliveInterval <= 0 {
		c.KeepaliveInterval = 30 * time.Second
	}
	if c.KeepaliveTimeout <= 0 {
		c.KeepaliveTimeout = 10 * time.Second
	}
	p := newPort(c.Limits)
	plainOrTLS, read, idle, largest := insecure.NewCredentials(), readBuffer, maxIdlePlaintext, p.limits.SmallRequest
	if c.TLS != nil {
		plainOrTLS, read, idle = credentials.NewTLS(c.TLS), readBufferTLS, maxIdle
		if !c.Anonymous {
			largest = max(largest, maxRequestBytes)
		}
	}
	return []grpc.ServerOption{
		grpc.Creds(linking{plainOrTLS, p}),
		grpc.ForceServerCodecV2(newCodec(p)),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: c.KeepaliveInterval, Timeout: c.KeepaliveTimeout, MaxConnectionIdle: idle,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPings, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(uint32(p.limits.StreamsPerConnection)),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxRecvMsgSize(largest),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(read),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(p.limits.Handshake),
	}
}
