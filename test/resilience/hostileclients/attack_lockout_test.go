package hostileclients

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// idleConnections is how many connections an attack opens on each port, and silentRate how many
// streams a second: 80 once filled all places for first requests.
const (
	idleConnections = 1000
	silentRate      = 200
)

// ramp is how long an attack takes to open its connections: the handshakes of a thousand at once
// would be about the CPUs of the machine.
const ramp = 500 * time.Millisecond

// silentStreams opens streams at a steady rate and sends nothing on them.
func silentStreams(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	tick := time.NewTicker(time.Second / silentRate)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for n := int64(1); ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		a.count(n)
		all.Go(func() {
			conn, err := a.connect(d)
			if err != nil {
				return
			}
			defer conn.Close()
			st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
				wire.SotWMethod, grpc.ForceCodec(rawCodec{}))
			if err != nil {
				return
			}
			var ignored rawMessage
			_ = st.RecvMsg(&ignored) // it blocks until the stream ends
		})
	}
}

// holdConnections opens connections as fast as they are accepted, sends some bytes, and keeps them
// open. A connection that the server closes is opened again.
func (a *attacker) holdConnections(ctx context.Context, d door, n int, begin func(net.Conn) error) error {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			pause(ctx, ramp*time.Duration(i)/time.Duration(n))
			for ctx.Err() == nil {
				c, err := a.dialIdle(ctx, d)
				if err == nil {
					if err = begin(c); err == nil {
						waitClosed(ctx, c)
					}
					_ = c.Close()
				}
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	all.Wait()
	return nil
}

// waitClosed returns when the peer has closed the connection or the context ends.
func waitClosed(ctx context.Context, c net.Conn) {
	_ = c.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) })
	defer stop()
	buffer := make([]byte, 512)
	for {
		if _, err := c.Read(buffer); err != nil {
			return
		}
	}
}

// idle keeps 1,000 idle connections open.
func idle(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	return a.holdConnections(ctx, d, idleConnections, func(net.Conn) error { return nil })
}

// clientHello is the beginning of a TLS handshake: a record header, and a ClientHello that is not
// complete.
var clientHello = append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, bytes.Repeat([]byte{7},
	60)...) //nolint:gochecknoglobals // a constant

// unfinishedHandshakes holds 1,000 connections in the middle of a TLS handshake.
func unfinishedHandshakes(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	return a.holdConnections(ctx, d, idleConnections, func(c net.Conn) error {
		_, err := c.Write(clientHello)
		return err
	})
}

// slowHeaders holds 300 requests whose headers come one byte at a time.
func slowHeaders(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	return a.drip(ctx, d, "GET "+append(d.Paths, "/")[0]+" HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
}

// slowBodies holds 300 requests whose bodies come one byte at a time.
func slowBodies(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	return a.drip(ctx, d, "POST "+append(d.Paths, "/")[0]+
		" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{\"kind\":\"")
}

const slowRequests = 300

func (a *attacker) drip(ctx context.Context, d door, begin string) error {
	var all sync.WaitGroup
	for i := range slowRequests {
		all.Go(func() {
			pause(ctx, ramp*time.Duration(i)/slowRequests)
			for ctx.Err() == nil {
				if c, err := a.inside(ctx, d, "http/1.1"); err == nil {
					_ = c.SetDeadline(time.Time{})
					_, err = c.Write([]byte(begin))
					for err == nil && ctx.Err() == nil {
						_, err = c.Write([]byte{'a'})
						pause(ctx, 200*time.Millisecond)
					}
					_ = c.Close()
				}
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	all.Wait()
	return nil
}

// manyStreams opens as many streams on one connection as the server's settings allow, and more. The
// count of the attack is the allowed number (SETTINGS_MAX_CONCURRENT_STREAMS), or 1,000,000 if the
// server sets none.
func manyStreams(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	c, err := a.inside(ctx, d, "h2")
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Time{})
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	allowed := int64(1_000_000)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return fmt.Errorf("no settings: %w", err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			if v, ok := s.Value(http2.SettingMaxConcurrentStreams); ok {
				allowed = int64(v)
			}
			break
		}
	}
	a.count(allowed)
	if err := f.WriteSettingsAck(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	go func() { // the server's answers are ignored
		buffer := make([]byte, 4096)
		for {
			if _, err := c.Read(buffer); err != nil {
				return
			}
		}
	}()
	_ = c.SetDeadline(time.Time{})
	for id := uint32(1); id < 4001 && ctx.Err() == nil; id += 2 {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: request,
			EndHeaders: true}); err != nil {
			return err
		}
	}
	pause(ctx, time.Second)
	return nil
}

// churn connects and closes at once, with a handshake where there is one.
func churn(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	for n := 0; n < 50 && ctx.Err() == nil; n++ {
		c, err := a.dial(ctx, d)
		if err != nil {
			return err
		}
		if d.TLS && r.IntN(2) == 0 {
			_, _ = c.Write(clientHello) // it is closed in the middle of the handshake
		}
		_ = c.Close()
	}
	return nil
}
