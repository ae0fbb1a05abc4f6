package server

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// raw is an HTTP/2 client of one delta stream without a goroutine. It reads only when a method is
// called and retains nothing between calls, so that the memory of a process with thousands of them
// is that of the server.
type raw struct {
	net.Conn
	credit [2]int // bytes that may be sent: on the connection, on the stream
}

// dialRaw opens a stream with an HTTP/2 window of the given size in bytes, and sends no request yet.
func dialRaw(tb testing.TB, addr string, window uint32) *raw {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	r := &raw{conn, [2]int{65535, 65535}}
	r.write(tb, func(f *http2.Framer) error {
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
			return err
		}
		if window > 65535 {
			if err := f.WriteWindowUpdate(0, window-65535); err != nil {
				return err
			}
		}
		var headers bytes.Buffer
		e := hpack.NewEncoder(&headers)
		for _, h := range [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName},
			{":authority", addr},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
		} {
			if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				return err
			}
		}
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true})
	}, []byte(http2.ClientPreface)...)
	return r
}

func (r *raw) write(tb testing.TB, frames func(*http2.Framer) error, before ...byte) {
	tb.Helper()
	out := bytes.NewBuffer(before)
	if err := frames(http2.NewFramer(out, nil)); err != nil {
		tb.Fatal(err)
	}
	if _, err := r.Write(out.Bytes()); err != nil {
		tb.Fatal(err)
	}
}

func (r *raw) send(tb testing.TB, m *discoveryv3.DeltaDiscoveryRequest) {
	tb.Helper()
	r.sendFramed(tb, framed(tb, m))
}

// framed encodes a request as gRPC does.
func framed(tb testing.TB, m *discoveryv3.DeltaDiscoveryRequest) []byte {
	tb.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// sendFramed sends an encoded request, as fast as the server takes it.
func (r *raw) sendFramed(tb testing.TB, body []byte) {
	tb.Helper()
	for len(body) > 0 {
		n := min(len(body), 16<<10, r.credit[0], r.credit[1])
		if n == 0 {
			r.read(tb)
			continue
		}
		r.write(tb, func(f *http2.Framer) error { return f.WriteData(1, false, body[:n]) })
		body = body[n:]
		r.credit[0] -= n
		r.credit[1] -= n
	}
}

// receive reads the next response.
func (r *raw) receive(tb testing.TB) *discoveryv3.DeltaDiscoveryResponse {
	tb.Helper()
	var body []byte
	r.drain(tb, func(data []byte) { body = append(body, data...) })
	m := new(discoveryv3.DeltaDiscoveryResponse)
	if err := proto.Unmarshal(body[5:], m); err != nil {
		tb.Fatal(err)
	}
	return m
}

// drain reads the next response piece by piece.
func (r *raw) drain(tb testing.TB, take func([]byte)) {
	tb.Helper()
	var head []byte
	for got := 0; ; {
		data := r.read(tb)
		if len(data) == 0 {
			continue
		}
		take(data)
		got += len(data)
		head = append(head, data[:min(len(data), 5-len(head))]...)
		r.write(tb, func(f *http2.Framer) error {
			if err := f.WriteWindowUpdate(0, uint32(len(data))); err != nil {
				return err
			}
			return f.WriteWindowUpdate(1, uint32(len(data)))
		})
		if len(head) == 5 && got-5 == int(binary.BigEndian.Uint32(head[1:])) {
			return
		}
	}
}

// read reads a frame, and returns the part of a message that it contains.
func (r *raw) read(tb testing.TB) []byte {
	tb.Helper()
	if err := r.SetReadDeadline(time.Now().Add(2 * limit)); err != nil {
		tb.Fatal(err)
	}
	frame, err := http2.NewFramer(nil, r).ReadFrame()
	if err != nil {
		tb.Fatal(err)
	}
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if !frame.IsAck() {
			r.write(tb, (*http2.Framer).WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			r.write(tb, func(f *http2.Framer) error { return f.WritePing(true, frame.Data) })
		}
	case *http2.WindowUpdateFrame:
		r.credit[frame.StreamID] += int(frame.Increment)
	case *http2.GoAwayFrame, *http2.RSTStreamFrame:
		tb.Fatalf("unexpected frame from the server: %v", frame)
	case *http2.DataFrame:
		return frame.Data()
	}
	return nil
}

// start requests and acknowledges all types in Envoy's order.
func (r *raw) start(tb testing.TB, node *corev3.Node) {
	tb.Helper()
	var names []string
	for _, ask := range []*discoveryv3.DeltaDiscoveryRequest{
		{TypeUrl: api.ClusterType, Node: node},
		{TypeUrl: api.EndpointType},
		{TypeUrl: api.ListenerType},
		{TypeUrl: api.RouteType, ResourceNamesSubscribe: []string{"80"}},
	} {
		if ask.TypeUrl == api.EndpointType {
			ask.ResourceNamesSubscribe = names
		}
		r.send(tb, ask)
		m := r.receive(tb)
		if m.TypeUrl != ask.TypeUrl {
			tb.Fatalf("asked for %s, got %s", ask.TypeUrl, m.TypeUrl)
		}
		for _, x := range m.Resources {
			if x.Name != "BlackHoleCluster" {
				names = append(names, x.Name)
			}
		}
		r.send(tb, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: m.TypeUrl, ResponseNonce: m.Nonce})
	}
}

// realNode is a node with the extensions, and so about the size, of the node that a real Envoy sends.
func realNode(tb testing.TB, i int) *corev3.Node {
	tb.Helper()
	build, err := workload.EnvoyBuild()
	if err != nil {
		tb.Fatal(err)
	}
	n := testNode(i)
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(build, n); err != nil {
		tb.Fatal(err)
	}
	return n
}
