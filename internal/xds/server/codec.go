package server

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's protobuf codec, but for responses, which are encoded already, and requests, which it reads by hand.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal gives the wire form of a message. That of a response is shared with other streams: its buffers need no freeing.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*response); ok {
		return r.buffers, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*request); ok {
		return r.read(data)
	}
	return c.CodecV2.Unmarshal(data, v)
}
