package server

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
)

// Transport contains the settings of the connections of streams. Zero fields have their defaults.
type Transport struct {
	// KeepaliveInterval is how long a connection may be idle before it is probed (default 30 s;
	// --keepaliveInterval). KeepaliveTimeout is how long the answer may take (default 10 s;
	// --keepaliveTimeout).
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// TLS is nil for plain text.
	TLS *tls.Config
	// Limits are the limits of the port.
	Limits Limits
	// Anonymous accepts clients without authentication although the port has TLS. Then the port
	// refuses messages that are larger than those allowed in plain text.
	Anonymous bool
}

const (
	// window is how many bytes a proxy may send before they are read, and so the cost of a proxy
	// that waits for its turn. It is the minimum of HTTP/2. A fixed window needs no probing of the
	// bandwidth.
	window = 64<<10 - 1
	// Most requests are small ACKs; only first requests of proxies with state are large. In plain
	// text a buffer is lent to a connection while data is available. With TLS it belongs to the
	// connection.
	readBuffer, readBufferTLS = 32 << 10, 8 << 10
	// Write buffers are lent to connections while they write. The first responses on a connection are
	// megabytes, but larger buffers, which need fewer system calls, take more CPU time: responses are
	// copied into them, and from them by the kernel, so they should fit into the cache of a processor.
	writeBuffer = 32 << 10
	// maxIdle is the age at which a connection without a stream is closed. maxIdlePlaintext applies
	// to plain text, whose clients are not authenticated.
	maxIdle, maxIdlePlaintext = 10 * time.Minute, time.Minute
	// maxHeaders bounds the headers of a call, which arrive before the client is authenticated. A
	// token has 2 KB.
	maxHeaders = 128 << 10
	// minPings is the minimum interval at which proxies may probe.
	minPings = 5 * time.Second
)

// ServerOptions returns the options with which a gRPC server that serves ADS must be created. They
// contain the state of the limits, so each server needs its own. Keepalive and limits that are not
// positive have defaults. Without TLS, or with Anonymous, messages are limited to SmallRequest.
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
			largest = p.limits.Request
		}
	}
	return []grpc.ServerOption{
		grpc.Creds(linkCredentials{plainOrTLS, p}),
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
		experimental.BufferPool(&buffers),
		grpc.ReadBufferSize(read),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(p.limits.Handshake),
	}
}
