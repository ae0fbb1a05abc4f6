package wire

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrMalformed means that bytes are not a protobuf message.
var ErrMalformed = errors.New("malformed protobuf")

// EachField calls fn for each field of a message: value for length-delimited ones, number for
// varints. Others are passed over.
func EachField(b []byte, fn func(field protowire.Number, value []byte, number uint64)) error {
	for len(b) > 0 {
		f, t, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrMalformed
		}
		b = b[n:]
		switch t {
		case protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n >= 0 {
				fn(f, v, 0)
			}
		case protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				fn(f, nil, v)
			}
		default:
			n = protowire.ConsumeFieldValue(f, t, b)
		}
		if n < 0 {
			return ErrMalformed
		}
		b = b[n:]
	}
	return nil
}

// AppendString appends a string field, unless it is empty.
func AppendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// AppendBytes appends a length-delimited field.
func AppendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// bytesOf returns the last length-delimited field of that number, or nil.
func bytesOf(b []byte, field protowire.Number) (value []byte, err error) {
	err = EachField(b, func(f protowire.Number, v []byte, _ uint64) {
		if f == field {
			value = v
		}
	})
	return value, err
}
