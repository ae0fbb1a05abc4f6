package feed

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// client is a control plane's stream. XDS.mu guards it, its sends too: there are one or two of
// them.
type client struct {
	stream grpc.ServerStream
	delta  bool
	types  map[string]bool
}

// request is what matters of a request.
type request struct {
	url  string
	nack bool
}

func parseRequest(b []byte, delta bool) (r request, err error) {
	url, detail := protowire.Number(4), protowire.Number(6)
	if delta {
		url, detail = 2, 7
	}
	err = wire.EachField(b, func(n protowire.Number, v []byte, _ uint64) {
		switch n {
		case url:
			r.url = string(v)
		case detail:
			r.nack = true
		}
	})
	return r, err
}

// serveStream answers a control plane. Anything after the first request for a type is an ACK or a
// NACK: afterwards this server sends only changes.
func (f *XDS) serveStream(st grpc.ServerStream, delta bool) error {
	c := &client{stream: st, delta: delta, types: map[string]bool{}}
	f.mu.Lock()
	f.clients[c] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.clients, c)
		f.mu.Unlock()
	}()
	for {
		var frame wire.Frame
		if err := st.RecvMsg(&frame); err != nil {
			return err
		}
		r, err := parseRequest(frame.Bytes(), delta)
		frame.Free()
		if err != nil {
			return err
		}
		if err := f.answerRequest(c, r); err != nil {
			return err
		}
	}
}

func (f *XDS) answerRequest(c *client, r request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.nack {
		f.nacks = append(f.nacks, r.url)
	}
	if c.types[r.url] || r.url == "" {
		return nil
	}
	c.types[r.url] = true
	b := f.fullResponse(r.url)
	if c.delta {
		b = f.wholeDelta(r.url)
	}
	return c.stream.SendMsg(b)
}

// fullResponse is the SotW response with everything of a type. f.mu is held.
func (f *XDS) fullResponse(url string) []byte {
	f.version++
	b := wire.AppendString(nil, 1, strconv.Itoa(f.version))
	for _, o := range f.types[url] {
		b = wire.AppendBytes(b, 2, f.encoded[o])
	}
	b = wire.AppendString(b, 4, url)
	return wire.AppendString(b, 5, strconv.Itoa(f.version))
}

func (f *XDS) wholeDelta(url string) []byte {
	var b []byte
	for _, o := range f.types[url] {
		b = f.appendResource(b, o)
	}
	return f.finishDelta(b, url)
}

// deltaResponse is the delta response with one edit. f.mu is held.
func (f *XDS) deltaResponse(e workload.Edit) []byte {
	if e.Removed {
		return f.finishDelta(wire.AppendString(nil, 6, e.Object.Namespace+"/"+e.Object.Name), e.Object.TypeURL())
	}
	return f.finishDelta(f.appendResource(nil, e.Object), e.Object.TypeURL())
}

func (f *XDS) appendResource(b []byte, o *workload.Object) []byte {
	r := wire.AppendString(nil, 1, strconv.Itoa(o.Revision))
	r = wire.AppendBytes(r, 2, f.encoded[o])
	return wire.AppendBytes(b, 2, wire.AppendString(r, 3, o.Namespace+"/"+o.Name))
}

func (f *XDS) finishDelta(b []byte, url string) []byte {
	f.version++
	b = wire.AppendString(b, 1, strconv.Itoa(f.version))
	b = wire.AppendString(b, 4, url)
	return wire.AppendString(b, 5, strconv.Itoa(f.version))
}

// created is when all objects were.
const created = 1_700_000_000

// encodeObject wraps an object as the protocol wants it, in an Any.
func encodeObject(o *workload.Object) ([]byte, error) {
	body, err := anypb.New(o.Spec)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s/%s: %w", o.Kind, o.Namespace, o.Name, err)
	}
	b, err := proto.Marshal(&mcp.Resource{
		Metadata: &mcp.Metadata{
			Name: o.Namespace + "/" + o.Name, Version: strconv.Itoa(o.Revision), Annotations: o.Annotations,
			CreateTime: timestamppb.New(time.Unix(created, 0)),
		},
		Body: body,
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s %s/%s: %w", o.Kind, o.Namespace, o.Name, err)
	}
	return wire.AppendBytes(wire.AppendString(nil, 1, "type.googleapis.com/istio.mcp.v1alpha1.Resource"), 2, b), nil
}
