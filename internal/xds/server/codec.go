package server

import (
	"context"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// codec is gRPC's protobuf codec with two differences. Responses of ADS are encoded already, and
// its requests are decoded by hand. Messages of other services are bounded before they are decoded.
type codec struct {
	encoding.CodecV2
	port *port
}

// newCodec returns gRPC's codec for protobuf messages, wrapped for the port p.
func newCodec(p *port) codec { return codec{encoding.GetCodecV2(proto.Name), p} }

// Marshal returns the wire form of a message. An ADS response is already encoded and shares its
// resource buffers with other streams.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*response); ok {
		return r.buffers, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes data into v, and may wait for a place to do so. Errors of a *guardedMessage,
// and refusals of a *request (ResourceExhausted, or the admission's), are stored in its err and nil
// is returned, because gRPC would end the call with codes.Internal. All other errors are returned.
// The receiver of a *request must call its leave, which releases the place.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *request:
		return v.decodeData(data)
	case *guardedMessage:
		v.size = data.Len()
		v.link.markReceived(v.size)
		v.err = c.decodeBounded(data, v.message)
		return nil // an error from here would end the call with codes.Internal
	}
	return c.decodeBounded(data, v)
}

// decodeBounded decodes a message of a service other than ADS. It refuses messages longer than
// SmallRequest or with too many elements, and returns errTooMany if no decoding place is free
// within maxWait. Elements of a v that is no protobuf message are not checked.
func (c codec) decodeBounded(data mem.BufferSlice, v any) error {
	if data.Len() > c.port.limits.SmallRequest {
		return errTooLong(data.Len(), c.port.limits.SmallRequest)
	}
	waiting, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	if err := c.port.decoding.acquire(waiting); err != nil {
		return errTooMany
	}
	defer c.port.decoding.release()
	m, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	raw := data.MaterializeToBuffer(&buffers)
	defer raw.Free()
	if err := checkElements(m.ProtoReflect().Descriptor(), raw.ReadOnlyData()); err != nil {
		return err
	}
	return protobuf.Unmarshal(raw.ReadOnlyData(), m)
}
