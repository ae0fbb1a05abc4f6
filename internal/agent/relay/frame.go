package relay

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// frame is a message as it is on the wire. Most pass through unread.
type frame []byte

// frames is a codec that hands messages over as they are.
type frames struct{}

var _ encoding.CodecV2 = frames{}

// Marshal gives a frame's bytes.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("%T is no frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*f)}, nil
}

// Unmarshal fills a frame.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is no frame", v)
	}
	*f = data.Materialize()
	return nil
}

// Name is what the messages are encoded as, which the other side knows.
func (frames) Name() string { return "proto" }

// text gives a field of text of the message, "" if it has none. Of several the last counts, as in protobuf.
func (f frame) text(field protowire.Number) (string, error) {
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

// encoded is a message as a frame. Nothing that the relay makes can fail to encode but for text that is not UTF-8.
func encoded(m proto.Message) (frame, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return b, nil
}
