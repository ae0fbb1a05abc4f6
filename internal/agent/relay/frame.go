package relay

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// frame is an encoded message. Most are forwarded without being decoded.
type frame []byte

// frameCodec is a gRPC codec that passes encoded messages through.
type frameCodec struct{}

var _ encoding.CodecV2 = frameCodec{}

// Marshal returns the bytes of a *frame, without a copy. It fails for any other type.
func (frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("cannot encode %T as frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*f)}, nil
}

// Unmarshal copies data into a *frame. It fails for any other type.
func (frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("cannot decode into %T, want *frame", v)
	}
	*f = data.Materialize()
	return nil
}

// Name returns the codec of the messages' encoding, for the content type.
func (frameCodec) Name() string { return "proto" }

// stringField returns a string field of the message, "" if it is not set. If it occurs repeatedly,
// the last value wins, as in protobuf. It fails if the message is malformed.
func (f frame) stringField(field protowire.Number) (string, error) {
	value := ""
	for b := []byte(f); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return "", protowire.ParseError(n)
		}
		b = b[n:]
		if number != field || kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return "", protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		bytes, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return "", protowire.ParseError(n)
		}
		value, b = string(bytes), b[n:]
	}
	return value, nil
}

// encodeFrame encodes a message. It fails only if a string is not UTF-8.
func encodeFrame(m proto.Message) (frame, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return b, nil
}
