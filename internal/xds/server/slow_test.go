package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// counted counts written responses, write timeouts and refused streams.
type counted struct {
	push.NoMetrics
	sent, timeouts, refused atomic.Int64
}

func (c *counted) Sent(string, int, int, time.Duration) { c.sent.Add(1) }
func (c *counted) WriteTimeout()                        { c.timeouts.Add(1) }
func (c *counted) StreamRefused()                       { c.refused.Add(1) }

// TestBlockedSocket connects a client whose HTTP/2 window is open but which does not read, so that
// TCP blocks. Changes do not accumulate for it, other clients are not delayed, and its stream ends
// after the send timeout.
func TestBlockedSocket(t *testing.T) {
	m := new(counted)
	h := serve(t, 5000, Options{SendTimeout: 2 * time.Second, Metrics: m, Writers: 1})
	good := h.connect(stream.Delta, testNode(1))
	good.start()
	blocked := dialRaw(t, h.addr, 1<<30)
	defer blocked.Close()
	if err := blocked.Conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	blocked.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: testNode(2)})
	writing := func() bool {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		for x := range h.server.sessions {
			if x.busy.Load() {
				return true
			}
		}
		return false
	}
	h.wait("the response blocks", func() bool { return len(h.pusher.Reports().Connections()) == 2 && writing() })
	sent, began := m.sent.Load(), time.Now()
	const changes = 10
	for i := range changes {
		h.mesh.SetEndpoints("s1", fmt.Sprintf("10.7.7.%d", i))
		good.ack(good.want(api.EndpointType), nil, "")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("%d changes reached the other client after %v", changes, took)
	}
	h.wait("the responses are counted", func() bool { return m.sent.Load()-sent >= changes })
	if n := m.sent.Load() - sent; n != changes {
		t.Errorf("%d responses were written while one client is blocked, want the %d of the other", n, changes)
	}
	h.wait("the blocked stream is ended", func() bool { return len(h.pusher.Reports().Connections()) == 1 })
	if m.timeouts.Load() != 1 {
		t.Errorf("%d write timeouts, want 1", m.timeouts.Load())
	}
}

// TestSlowReaderIsKept: a client that reads slowly is not disconnected, and receives everything.
func TestSlowReaderIsKept(t *testing.T) {
	h := serve(t, 3000, Options{SendTimeout: 100 * time.Millisecond})
	slow := dialRaw(t, h.addr, 64<<10)
	defer slow.Close()
	slow.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: testNode(2)})
	began, size := time.Now(), 0
	slow.drain(t, func(b []byte) {
		size += len(b)
		time.Sleep(time.Duration(len(b)) * time.Second / (1 << 20)) // a megabyte a second
	})
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Fatalf("%d bytes took %v, which is not slow", size, took)
	}
	slow.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ListenerType})
	if m := slow.receive(t); m.TypeUrl != api.ListenerType {
		t.Errorf("got %s", m.TypeUrl)
	}
}

// TestSendHasATimeout: a client that reads but never finishes a response is disconnected after
// maxSendTime, however long the response is.
func TestSendHasATimeout(t *testing.T) {
	m := new(counted)
	h := serve(t, 3000, Options{SendTimeout: 100 * time.Millisecond, Metrics: m})
	if most := h.server.maxSendTime; most > 5*time.Minute {
		t.Errorf("maxSendTime is %v, want a few minutes at most", most)
	}
	h.server.maxSendTime = time.Second
	slow := dialRaw(t, h.addr, 16<<10)
	defer slow.Close()
	slow.send(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: testNode(2)})
	h.wait("the client is connected", func() bool { return len(h.server.Connections()) == 1 })
	began := time.Now()
	for len(h.server.Connections()) > 0 {
		if time.Since(began) > limit {
			t.Fatal("the stream has not ended")
		}
		n := uint32(len(slow.read(t)))
		if n == 0 {
			continue
		}
		time.Sleep(50 * time.Millisecond) // 320 KB a second
		slow.write(
			t,
			func(f *http2.Framer) error { return errors.Join(f.WriteWindowUpdate(0, n), f.WriteWindowUpdate(1, n)) },
		)
	}
	if took := time.Since(began); took < 500*time.Millisecond || m.timeouts.Load() != 1 {
		t.Errorf("the stream ended after %v with %d write timeouts, want one after a second", took, m.timeouts.Load())
	}
}

// TestSilentConnectionsOccupyNoSlot opens more streams without a request than there are slots. On a
// loaded machine the first of them have timed out before the last one is open.
func TestSilentConnectionsOccupyNoSlot(t *testing.T) {
	h := serve(t, 1, Options{Openings: 1, SendTimeout: time.Second})
	for range 50 {
		c := dialRaw(t, h.addr, 64<<10)
		defer c.Close()
	}
	sessions := func() int {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		return len(h.server.sessions)
	}
	h.wait("more silent streams are open than there are slots", func() bool { return sessions() > 1 })
	h.connect(stream.Delta, testNode(1)).start()
	h.wait("the silent streams are ended", func() bool { return sessions() == 1 })
}

// TestHalfOpenConnection: a connection is closed if the path to the client drops all packets, as
// when a machine fails.
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	h := serveOver(t, 3, Options{}, Transport{KeepaliveInterval: time.Second, KeepaliveTimeout: time.Second})
	r := newRelay(t, h.addr)
	lost := open(t, (&harness{t: t, addr: r.addr}).dial(), stream.Delta, testNode(1))
	lost.start()
	good := h.connect(stream.Delta, testNode(2))
	good.start()
	r.swallow.Store(true)
	began := time.Now()
	h.wait("the dead connection is detected", func() bool { return len(h.server.Connections()) == 1 })
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the dead connection was detected after %v, want about two seconds", took)
	}
	h.mesh.EditRoutes()
	good.want(api.RouteType)
}

// relay forwards connections to another address, until it silently drops all data.
type relay struct {
	addr    string
	swallow atomic.Bool
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String()}
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	pipe := func(from, to net.Conn) {
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			if r.swallow.Load() {
				continue
			}
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
	}
	running.Go(func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			conns = append(conns, a, b)
			mu.Unlock()
			running.Go(func() { pipe(a, b) })
			running.Go(func() { pipe(b, a) })
		}
	})
	t.Cleanup(func() {
		for _, c := range append([]io.Closer{l}, closers(&mu, &conns)...) {
			_ = c.Close() // may be closed
		}
		running.Wait()
	})
	return r
}

func closers(mu *sync.Mutex, conns *[]net.Conn) []io.Closer {
	mu.Lock()
	defer mu.Unlock()
	var list []io.Closer
	for _, c := range *conns {
		list = append(list, c)
	}
	return list
}
