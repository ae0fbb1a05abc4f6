package xds

import (
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the messages. DiscoveryResponse and DeltaDiscoveryResponse
// (envoy.service.discovery.v3) have equal numbers for the fields used here, except for
// removed_resources. The numbers for Resource of the same package, google.protobuf.Any, and
// Resource and Metadata of istio.mcp.v1alpha1 follow.
const (
	responseVersion   = 1
	responseResources = 2
	responseType      = 4
	responseNonce     = 5
	responseRemoved   = 6 // control_plane in DiscoveryResponse

	deltaVersion = 1
	deltaBody    = 2
	deltaName    = 3

	anyType  = 1
	anyValue = 2

	objectMetadata = 1
	metadataName   = 1
)

var errWire = errors.New("malformed protobuf message")

// forEachField calls f for each length-delimited field of a message, and returns the first error of
// f, at which it stops. Fields of other wire types are skipped. The values are not copied. It
// returns errWire for malformed encoding.
func forEachField(b []byte, f func(field protowire.Number, v []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
				return errWire
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if err := f(number, v); err != nil {
			return err
		}
	}
	return nil
}

// lastField returns the value of the last field with this number, which overrides earlier ones, or
// nil if there is none. The value shares the memory of b. It returns errWire for malformed
// encoding; then the value must not be used.
func lastField(b []byte, want protowire.Number) ([]byte, error) {
	var found []byte
	err := forEachField(b, func(number protowire.Number, v []byte) error {
		if number == want {
			found = v
		}
		return nil
	})
	return found, err
}

// response is the envelope of a message from the server. Its resources stay encoded in message.
type response struct {
	typeURL, version, nonce string
	removed                 []string
	message                 []byte
}

// readResponse returns the parts of a discovery response. The result contains message itself, whose
// resources are read later (forEachResource). Removed names are read only if delta is set. It
// returns errWire for malformed encoding. Parts that the message does not have are empty.
func readResponse(message []byte, delta bool) (response, error) {
	r := response{message: message}
	err := forEachField(message, func(number protowire.Number, v []byte) error {
		switch number {
		case responseVersion:
			r.version = string(v)
		case responseType:
			r.typeURL = string(v)
		case responseNonce:
			r.nonce = string(v)
		case responseRemoved:
			if delta {
				r.removed = append(r.removed, string(v))
			}
		}
		return nil
	})
	return r, err
}

// forEachResource calls f for each resource: an Any in the state-of-the-world variant, a Resource
// in the incremental one.
func (r response) forEachResource(f func(resource []byte)) {
	// The message was scanned without error before.
	_ = forEachField(r.message, func(number protowire.Number, v []byte) error {
		if number == responseResources {
			f(v)
		}
		return nil
	})
}

// readAny returns the type URL and the value of an Any, which share the memory of b, nil if
// missing. It returns errWire for malformed encoding; then both may be incomplete.
func readAny(b []byte) (typeURL, value []byte, err error) {
	err = forEachField(b, func(number protowire.Number, v []byte) error {
		switch number {
		case anyType:
			typeURL = v
		case anyValue:
			value = v
		}
		return nil
	})
	return typeURL, value, err
}

// readName returns the name of an encoded object without decoding the rest, nil if it has none. It
// returns errWire for malformed encoding.
func readName(object []byte) ([]byte, error) {
	metadata, err := lastField(object, objectMetadata)
	if err != nil {
		return nil, err
	}
	return lastField(metadata, metadataName)
}

// frame is a received message in wire format.
type frame struct{ buffer mem.Buffer }

// bytes returns the message, which must not be modified or used after the buffer was freed.
func (f *frame) bytes() []byte { return f.buffer.ReadOnlyData() }

// codec is gRPC's protobuf codec, extended for frames.
type codec struct {
	encoding.CodecV2
	pool mem.BufferPool
}

// newCodec returns a codec with a pool of large buffers. gRPC's default pool has no buffers for
// messages of several megabytes.
func newCodec() codec {
	return codec{encoding.GetCodecV2(proto.Name), mem.NewTieredBufferPool(16<<10, 256<<10, 1<<20, 4<<20, 16<<20)}
}

// Unmarshal decodes data into v. For a *frame it only stores the bytes, in a buffer that the
// receiver must free.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.buffer = data.MaterializeToBuffer(c.pool)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
