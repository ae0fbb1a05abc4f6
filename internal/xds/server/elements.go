package server

import (
	"encoding/binary"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The memory that a message needs grows with the number of its elements, not with its length. A
// null in a list of a Struct is four bytes on the wire and two hundred in memory. So elements are
// counted on the wire before a message is decoded.

const (
	// maxElements bounds the number of fields of a message, including fields of nested messages. A
	// real node has 3,000 at most, nearly all of them in the list of Envoy's extensions. An element
	// uses up to 200 bytes of memory.
	maxElements = 32 << 10
	// maxDepth bounds how deep messages are nested.
	maxDepth = 100
	// maxFieldBytes bounds each field of a request. The largest is the node: a real proxy's has 60
	// KB.
	maxFieldBytes = 1 << 20
)

// requestLimit is the setting that raises the limit of messages.
const requestLimit = "MESHPILOT_XDS_SMALL_REQUEST_BYTES"

// errTooLong returns a ResourceExhausted status for a message of size bytes that exceeds limit.
func errTooLong(size, limit int) error {
	return status.Errorf(codes.ResourceExhausted, "message of %d bytes exceeds the limit of %d bytes (%s)", size, limit, requestLimit)
}

// errFieldTooLong returns a ResourceExhausted status for a field of a request that has size bytes.
func errFieldTooLong(number protowire.Number, size int) error {
	return status.Errorf(codes.ResourceExhausted,
		"field %d of a request has %d bytes: at most %d are allowed in each field, the node included",
		number, size, maxFieldBytes)
}

// checkFields returns a ResourceExhausted status for a request of more than most fields, or with a
// field of more than maxFieldBytes. The length of the field with the number unbounded is not
// checked. It reads only lengths, in the buffers in which they arrived, so a refused request is
// neither copied nor waits for a place. It returns nil for a malformed message, which the decoder
// refuses.
func checkFields(data mem.BufferSlice, most int, unbounded protowire.Number) error {
	r := data.Reader()
	defer r.Close()
	for n := 0; r.Remaining() > 0; n++ {
		if n == most {
			return status.Errorf(codes.ResourceExhausted, "the request has more than %d fields", most)
		}
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return nil // malformed
		}
		number, kind := protowire.DecodeTag(tag)
		size, ok := sizeOfValue(r, kind)
		switch {
		case !ok:
			return nil
		case size > maxFieldBytes && number != unbounded:
			return errFieldTooLong(number, size)
		}
		if skipped, _ := r.Discard(size); skipped < size {
			return nil
		}
	}
	return nil
}

// sizeOfValue reads the length of a field's value, and returns how many bytes of it remain to be
// read. A varint is read completely. ok is false for a wire type that requests do not have, and for
// invalid encoding.
func sizeOfValue(r *mem.Reader, kind protowire.Type) (size int, ok bool) {
	switch kind {
	case protowire.VarintType:
		_, err := binary.ReadUvarint(r)
		return 0, err == nil
	case protowire.Fixed32Type:
		return 4, true
	case protowire.Fixed64Type:
		return 8, true
	case protowire.BytesType:
		n, err := binary.ReadUvarint(r)
		return int(min(n, math.MaxInt32)), err == nil
	default:
		return 0, false
	}
}

var (
	errElements = status.Errorf(codes.ResourceExhausted, "a message has more than %d elements", maxElements)
	errDepth    = status.Errorf(codes.ResourceExhausted, "a message is nested more than %d deep", maxDepth)
)

// checkElements returns a gRPC status if an encoded message of type of has more than maxElements
// elements or is nested deeper than maxDepth. It returns nil for a malformed message, which the
// decoder refuses.
func checkElements(of protoreflect.MessageDescriptor, raw []byte) error {
	_, err := countElements(of, raw, maxElements, maxDepth)
	return err
}

// countElements returns left minus the number of elements of the encoded message, nested ones
// included; of packed lists it counts the bytes. It returns errElements if there are more than
// left, and errDepth if messages are nested deeper than depth. At invalid encoding it stops without
// an error.
func countElements(of protoreflect.MessageDescriptor, raw []byte, left, depth int) (int, error) {
	if depth == 0 {
		return 0, errDepth
	}
	fields := of.Fields()
	for len(raw) > 0 {
		if left--; left < 0 {
			return 0, errElements
		}
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return left, nil
		}
		raw = raw[n:]
		if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
			return left, nil
		}
		value := raw[:n]
		raw = raw[n:]
		if kind != protowire.BytesType {
			continue
		}
		field := fields.ByNumber(number)
		if field == nil {
			continue // kept as bytes
		}
		body, _ := protowire.ConsumeBytes(value)
		switch {
		case field.Message() != nil:
			var err error
			if left, err = countElements(field.Message(), body, left, depth-1); err != nil {
				return 0, err
			}
		case field.IsPacked():
			if left -= len(body); left < 0 {
				return 0, errElements
			}
		}
	}
	return left, nil
}
