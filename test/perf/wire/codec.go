package wire

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Codec hands gRPC messages through as bytes: it sends []byte and receives into *Frame.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Name is that of the protobuf codec: the peer must not notice.
func (Codec) Name() string { return "proto" }

// Marshal takes a []byte.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("raw codec: cannot send %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal fills a *Frame.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*Frame)
	if !ok {
		return fmt.Errorf("raw codec: cannot receive into %T", v)
	}
	f.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// Frame is one received message. Free must be called when its bytes are not needed any more.
type Frame struct{ buffer mem.Buffer }

// Bytes returns the message, valid until Free.
func (f *Frame) Bytes() []byte { return f.buffer.ReadOnlyData() }

// Free releases the memory.
func (f *Frame) Free() { f.buffer.Free() }
