package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// TestOldestPendingIsDropped: a source that exceeds its share loses its own oldest pending stream,
// not that of another source. If there are too many in all, the oldest is dropped. Admitted streams
// are not affected.
func TestOldestPendingIsDropped(t *testing.T) {
	p := newPendingSet(3, 5)
	var dropped []string
	entry := func(source, name string) *pendingEntry {
		return p.add(addr(source), func() { dropped = append(dropped, name) })
	}
	quiet := entry("10.0.0.1", "quiet")
	entry("10.0.0.2", "a")
	admitted := entry("10.0.0.2", "admitted")
	entry("10.0.0.2", "b")
	admitted.remove()
	admitted.remove()
	for i := range 4 {
		entry("10.0.0.2", fmt.Sprint(i))
	}
	if got := strings.Join(dropped, " "); got != "a b 0" {
		t.Errorf("dropped %s, want the oldest of the same source", got)
	}
	dropped = nil
	entry("10.0.0.3", "x")
	entry("10.0.0.4", "y")
	if got := strings.Join(dropped, " "); got != "quiet" {
		t.Errorf("dropped %s, want the oldest of all", got)
	}
	quiet.remove() // it was dropped already
	if n := p.count(); n != 5 {
		t.Errorf("%d are pending, want 5", n)
	}
	p.now = func() time.Time { return time.Now().Add(2 * maxPendingAge) }
	entry("10.0.0.5", "late")
	if n := p.count(); n != 1 {
		t.Errorf("%d are pending after a long time, want the newest alone", n)
	}
}

func TestSourceOf(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3:80": "10.1.2.3", "[::ffff:10.1.2.3]:80": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::", "[fe80::1%lo]:80": "fe80::",
	} {
		if got := sourceOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text))); got.String() != want {
			t.Errorf("source of %s = %s, want %s", text, got, want)
		}
	}
}

// TestFramesAreFollowed splits a client's bytes at random positions, and checks that the payload of
// its DATA frames is counted correctly.
func TestFramesAreFollowed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		wire := bytes.NewBufferString(http2.ClientPreface)
		f := http2.NewFramer(wire, nil)
		if err := f.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		bytesSent, framesSent := 0, 0
		for range r.IntN(50) {
			var err error
			switch n := r.IntN(3000); r.IntN(4) {
			case 0:
				err = f.WritePing(true, [8]byte{})
			case 1:
				err = f.WriteHeaders(
					http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, n), EndHeaders: true},
				)
			default:
				err = f.WriteData(1, false, make([]byte, n))
				if bytesSent += n; n > 0 {
					framesSent++
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got, count := 0, 0
		follow := frames{preface: prefaceLength}
		for b := wire.Bytes(); len(b) > 0; {
			cut := 1 + r.IntN(len(b))
			n, frames := follow.countData(b[:cut])
			got, count, b = got+n, count+frames, b[cut:]
		}
		if got != bytesSent || count != framesSent {
			t.Fatalf("%d bytes in %d DATA frames, want %d in %d", got, count, bytesSent, framesSent)
		}
	}
}

// nulls returns a Struct of n nulls, which is small on the wire and large in memory.
func nulls(n int) *structpb.Struct {
	list := new(structpb.ListValue)
	for range n {
		list.Values = append(list.Values, structpb.NewNullValue())
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)}}
}

func TestElementsAreCountedBeforeDecoding(t *testing.T) {
	deep := structpb.NewNullValue()
	for range 2 * maxDepth {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
	}
	many := &corev3.Node{Extensions: make([]*corev3.Extension, maxElements+1)}
	for i := range many.Extensions {
		many.Extensions[i] = new(corev3.Extension)
	}
	node := new(corev3.Node).ProtoReflect().Descriptor()
	for name, tt := range map[string]struct {
		node *corev3.Node
		ok   bool
	}{
		"real":               {realNode(t, 1), true},
		"many nulls":         {&corev3.Node{Metadata: nulls(maxElements)}, false},
		"as many as allowed": {&corev3.Node{Metadata: nulls(maxElements/2 - 10)}, true},
		"deep":               {&corev3.Node{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": deep}}}, false},
		"empty extensions":   {many, false},
	} {
		raw := marshal(t, tt.node)
		err := checkElements(node, raw)
		if (err == nil) != tt.ok || err != nil && status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s, %d bytes: %v", name, len(raw), err)
		}
	}
	if err := checkElements(
		new(security.IstioCertificateRequest).ProtoReflect().Descriptor(),
		marshal(t, &security.IstioCertificateRequest{Metadata: nulls(100_000)}),
	); err == nil {
		t.Error("a certificate request with 100,000 nulls is decoded")
	}
}

// TestPackedListsAreCounted checks that a list at the end of a message, of one byte per element, is
// counted like any other.
func TestPackedListsAreCounted(t *testing.T) {
	for n, want := range map[int]codes.Code{maxElements - 10: codes.OK, maxElements: codes.ResourceExhausted} {
		m := &routev3.VirtualHost{RetryPolicy: &routev3.RetryPolicy{RetriableStatusCodes: make([]uint32, n)}}
		if got := status.Code(checkElements(m.ProtoReflect().Descriptor(), marshal(t, m))); got != want {
			t.Errorf("%d elements: %v, want %v", n, got, want)
		}
	}
}

// state returns initial_resource_versions of the given size in bytes.
func state(size int) map[string]string {
	held := map[string]string{}
	for i := 0; len(held)*500 < size; i++ {
		held[fmt.Sprintf("%0480d", i)] = "0123456789abcdef"
	}
	return held
}

// TestRequestsAreBounded: an authenticated client may send a request with the state of a large
// mesh, up to a limit. A client without an identity may send only a small request.
func TestRequestsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name       string
		identities []string
		size       int
		limit      string // in the error; "" if the request is served
	}{
		{"no identity, small", nil, 900 << 10, ""},
		{"no identity, large", nil, 1200 << 10, "1048576"},
		{"identity, large", []string{ours}, 15 << 20, ""},
		{"identity, too large", []string{ours}, 18 << 20, "16777216"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{
				Authenticate: func(context.Context) ([]string, string, error) { return tt.identities, "", nil },
			}
			h := serveOver(t, 1, o, Transport{TLS: selfSigned(t)})
			c := open(t, h.dialTLS(), stream.Delta, testNode(1))
			c.ask(api.ClusterType, nil, state(tt.size))
			if tt.limit == "" {
				c.want(api.ClusterType)
				return
			}
			if err := c.wantEnd(); status.Code(err) != codes.ResourceExhausted ||
				!strings.Contains(err.Error(), tt.limit) {
				t.Errorf("the stream ended with %v, want ResourceExhausted by the limit of %s", err, tt.limit)
			}
		})
	}
	t.Run("plain text", func(t *testing.T) {
		h := serve(t, 1, Options{})
		c := h.connect(stream.Delta, testNode(1))
		c.ask(api.ClusterType, nil, state(1200<<10))
		if err := c.wantEnd(); status.Code(err) != codes.ResourceExhausted ||
			!strings.Contains(err.Error(), "1048576") {
			t.Errorf("the stream ended with %v", err)
		}
	})
	t.Run("names", func(t *testing.T) {
		h := serve(t, 1, Options{})
		c := h.connect(stream.Delta, testNode(1))
		names := make([]string, h.pusher.NameLimits().Names+1)
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		c.ask(api.EndpointType, names, nil)
		if err := c.wantEnd(); status.Code(err) != codes.ResourceExhausted ||
			!strings.Contains(err.Error(), "resource names") {
			t.Errorf("the stream ended with %v", err)
		}
	})
	t.Run("a node of nulls", func(t *testing.T) {
		h := serve(t, 1, Options{})
		n := testNode(1)
		n.Metadata = nulls(100_000)
		c := h.connect(stream.Delta, n)
		c.ask(api.ClusterType, nil, nil)
		if err := c.wantEnd(); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// TestStreamsOfAConnectionAreBounded checks the SETTINGS that the server announces.
func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	h := serve(t, 1, Options{})
	r := dialRaw(t, h.addr, 64<<10)
	defer r.Close()
	f := http2.NewFramer(nil, r)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := frame.(*http2.SettingsFrame); ok && !s.IsAck() {
			if n, ok := s.Value(http2.SettingMaxConcurrentStreams); !ok || n != 100 {
				t.Errorf("announced max concurrent streams = %d (%v), want 100", n, ok)
			}
			if n, ok := s.Value(http2.SettingMaxHeaderListSize); !ok || n > 128<<10 {
				t.Errorf("announced max header list size = %d (%v), want 128 KiB", n, ok)
			}
			return
		}
	}
}

// selfSigned returns the TLS configuration of a port. Clients of dialTLS do not verify its
// certificate.
func selfSigned(*testing.T) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{serverPair(pki.Authority("test")).TLS()}}
}

func (h *harness) dialTLS() *grpc.ClientConn {
	return h.dial(
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(1<<30)),
	)
}

// port returns the state of the port that a stream is on.
func (h *harness) port() (p *port) {
	h.t.Helper()
	c := dialRaw(h.t, h.addr, 64<<10)
	defer c.Close()
	h.wait("a stream is open", func() bool {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		for x := range h.server.sessions {
			p = x.link.port
		}
		return p != nil
	})
	return p
}

// sendUntilClosed sends part of a message as fast as the server takes it, until the server closes
// the connection or the test does.
func (r *raw) sendUntilClosed(body []byte) {
	f := http2.NewFramer(r, r)
	for credit := r.credit; ; {
		if n := min(len(body), 16<<10, credit[0], credit[1]); n > 0 {
			if f.WriteData(1, false, body[:n]) != nil {
				return
			}
			body = body[n:]
			credit[0] -= n
			credit[1] -= n
			continue
		}
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if w, ok := frame.(*http2.WindowUpdateFrame); ok {
			credit[w.StreamID] += int(w.Increment)
		}
	}
}

// awaitEnd reads until the server ends the stream or the connection.
func (r *raw) awaitEnd() {
	f := http2.NewFramer(r, r)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch x := frame.(type) {
		case *http2.RSTStreamFrame:
			return
		case *http2.HeadersFrame:
			if x.StreamEnded() {
				return
			}
		}
	}
}

// silent opens a stream without sending a request.
func silent(t *testing.T, h *harness) *raw { return dialRaw(t, h.addr, 64<<10) }

// TestSilentStreamsAreDisplaced opens more streams without a request than may be pending: the
// newest displace the oldest, and a proxy that connects is served at once.
func TestSilentStreamsAreDisplaced(t *testing.T) {
	const silentStreams, pending = 100, 20
	h := serveOver(t, 1, Options{Openings: 1}, Transport{Limits: Limits{PendingPerSource: pending}})
	good := h.connect(stream.Delta, testNode(0))
	good.start()
	var displaced atomic.Int32
	for range silentStreams {
		c := silent(t, h)
		defer c.Close()
		go func() {
			c.awaitEnd()
			displaced.Add(1)
		}()
	}
	// Otherwise the server might accept a silent stream after that of the proxy.
	h.wait("the server has seen all of them", func() bool { return displaced.Load() >= silentStreams-pending })
	began := time.Now()
	h.connect(stream.Delta, testNode(1)).start()
	if took := time.Since(began); took > time.Second {
		t.Errorf("a proxy waited %v", took)
	}
	sessions := func() int {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		return len(h.server.sessions)
	}
	h.wait("the oldest are displaced", func() bool { return sessions() <= 22 })
	h.mesh.EditRoutes()
	good.want(api.RouteType) // a served stream is not displaced
}

// TestUnfinishedMessagesAreBounded: if many clients stop in the middle of a message, the port
// buffers no more than its budget, and a proxy is served.
func TestUnfinishedMessagesAreBounded(t *testing.T) {
	h := serveOver(t, 1, Options{}, Transport{Limits: Limits{PendingPerSource: 1000, Request: 1 << 20, Unread: 4 << 20}})
	p := h.port()
	body := framed(
		t,
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl:                 api.ClusterType,
			Node:                    testNode(2),
			InitialResourceVersions: state(900 << 10),
		},
	)
	for range 16 {
		c := silent(t, h)
		defer c.Close()
		go c.sendUntilClosed(body[:len(body)-100])
	}
	h.wait("the budget is used", func() bool { return p.unread.inUse() > 2<<20 })
	for range 20 {
		if n := p.unread.inUse(); n > 4<<20 {
			t.Errorf("%d bytes of unfinished messages are buffered", n)
		}
		began := time.Now()
		c := h.connect(stream.Delta, testNode(1))
		c.start()
		if took := time.Since(began); took > time.Second {
			t.Errorf("a proxy waited %v", took)
		}
		c.end()
	}
	h.wait("the bytes of closed connections are released", func() bool {
		p.unread.mu.Lock()
		defer p.unread.mu.Unlock()
		sum := 0
		for l := range p.unread.holders {
			sum += l.unread.cost()
		}
		return sum == p.unread.used
	})
}
