package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

const (
	// window is how much the control plane may send ahead: what pilot-agent grants it.
	window       = 1 << 20
	maxResponse  = 1<<31 - 1
	narrowBuffer = 16 << 10
)

// dialServer makes a connection to one of the addresses, which opens with its stream.
func (p *proxy) dialServer() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///control-plane",
		grpc.WithTransportCredentials(p.credentials), grpc.WithAuthority("istiod.istio-system.svc"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := p.dialAnyAddress(ctx)
			if err != nil || p.rate.Load() == 0 {
				return c, err
			}
			if err := c.(*net.TCPConn).SetReadBuffer(narrowBuffer); err != nil {
				c.Close()
				return nil, err
			}
			return &slowConn{Conn: c, rate: &p.rate}, nil
		}),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse), grpc.ForceCodecV2(wire.Codec{})))
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", p.f.options.Addresses, err)
	}
	return conn, nil
}

// dialAnyAddress connects to the first address that accepts, in random order. If none does, it
// returns all errors.
func (p *proxy) dialAnyAddress(ctx context.Context) (net.Conn, error) {
	var failed []error
	for _, i := range rand.Perm(len(p.f.options.Addresses)) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", p.f.options.Addresses[i])
		if err == nil {
			p.dialed.Store(int32(i))
			return c, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// Unhurried is a rate that does not slow a proxy down. A proxy that connected with it can be slowed
// down later.
const Unhurried = 1 << 40

// LimitReadRate limits the rate at which proxies read, in bytes a second. It affects only proxies
// that connected with a rate, [Unhurried] at first: they have small buffers, so that unread data
// waits at the server.
func (f *Fleet) LimitReadRate(proxies []int, bytesPerSecond int64) {
	for _, i := range proxies {
		f.proxies[i].rate.Store(bytesPerSecond)
	}
}

// slowConn is a connection that is read slowly.
type slowConn struct {
	net.Conn
	rate *atomic.Int64
}

// slices is the number of reads of a slow connection per second.
const slices = 10

// Read reads the bytes of a fraction of a second, and waits for that time.
func (c *slowConn) Read(b []byte) (int, error) {
	rate := c.rate.Load()
	if rate <= 0 || rate >= Unhurried {
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b[:max(1, min(int64(len(b)), rate/slices))])
	if err == nil {
		<-time.After(time.Duration(n) * time.Second / time.Duration(rate))
	}
	return n, err
}
