package server

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Transport is the settings of the connections that streams come on. Zero values are defaults.
type Transport struct {
	// KeepaliveInterval is how long a connection may be idle before it is probed (30 s), KeepaliveTimeout how long the
	// answer may take (10 s). --keepaliveInterval, --keepaliveTimeout.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// MaxAge closes a connection at about that age, so that proxies spread over replicas anew. 0: never.
	// --keepaliveMaxServerConnectionAge.
	MaxAge time.Duration
}

const (
	// maxRequestBytes bounds a request. The biggest are those of a proxy that comes with state: about 100 bytes for each
	// resource, besides 60 KB of node.
	maxRequestBytes = 16 << 20
	// window is how much a proxy may send before it is read. A fixed one costs no probing of the bandwidth.
	window = 256 << 10
	// Requests are small, for the most part ACKs, and buffers are per connection.
	readBuffer = 8 << 10
	maxStreams = 100_000
	// grace is what a connection that is too old has left to end its streams.
	grace = 10 * time.Second
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
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: c.KeepaliveInterval, Timeout: c.KeepaliveTimeout, MaxConnectionAge: c.MaxAge, MaxConnectionAgeGrace: grace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPings, PermitWithoutStream: true}),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(20 * time.Second),
	}
}
