package nacos

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// payload is the message of the protocol, in both directions:
//
//	message Payload {
//	  Metadata metadata = 2;          // string type = 3; map<string, string> headers = 7
//	  google.protobuf.Any body = 3;   // bytes value = 2: JSON
//	}
type payload struct {
	// kind is the type of the request or response: "SubscribeServiceRequest".
	kind string
	// headers has the access token. The headers of received messages are not read.
	headers map[string]string
	// body is JSON.
	body []byte
}

// The numbers of the fields.
const (
	fieldMetadata, fieldBody = 2, 3
	fieldKind, fieldHeaders  = 3, 7
	fieldKey, fieldValue     = 1, 2
)

// codec is the gRPC codec of payload.
type codec struct{}

// Name returns "proto": the encoding is that of Protobuf.
func (codec) Name() string { return "proto" }

// Marshal encodes a *payload as Nacos' message Payload, with kind and headers as its metadata. Any
// other type is an error.
func (codec) Marshal(v any) ([]byte, error) {
	p, ok := v.(*payload)
	if !ok {
		return nil, fmt.Errorf("cannot encode %T", v)
	}
	var metadata []byte
	metadata = protowire.AppendTag(metadata, fieldKind, protowire.BytesType)
	metadata = protowire.AppendString(metadata, p.kind)
	for k, value := range p.headers {
		var entry []byte
		entry = protowire.AppendTag(entry, fieldKey, protowire.BytesType)
		entry = protowire.AppendString(entry, k)
		entry = protowire.AppendTag(entry, fieldValue, protowire.BytesType)
		entry = protowire.AppendString(entry, value)
		metadata = protowire.AppendTag(metadata, fieldHeaders, protowire.BytesType)
		metadata = protowire.AppendBytes(metadata, entry)
	}
	var body []byte
	body = protowire.AppendTag(body, fieldValue, protowire.BytesType)
	body = protowire.AppendBytes(body, p.body)
	var out []byte
	out = protowire.AppendTag(out, fieldMetadata, protowire.BytesType)
	out = protowire.AppendBytes(out, metadata)
	out = protowire.AppendTag(out, fieldBody, protowire.BytesType)
	return protowire.AppendBytes(out, body), nil
}

// Unmarshal decodes data into v, a *payload, whose former content it discards. It reads only the
// kind and the body, which it copies. It returns an error if v has another type or the data are
// malformed.
func (codec) Unmarshal(data []byte, v any) error {
	p, ok := v.(*payload)
	if !ok {
		return fmt.Errorf("cannot decode %T", v)
	}
	*p = payload{}
	return forEachField(data, func(field protowire.Number, value []byte) error {
		switch field {
		case fieldMetadata:
			return forEachField(value, func(field protowire.Number, value []byte) error {
				if field == fieldKind {
					p.kind = string(value)
				}
				return nil
			})
		case fieldBody:
			return forEachField(value, func(field protowire.Number, value []byte) error {
				if field == fieldValue {
					p.body = append([]byte(nil), value...)
				}
				return nil
			})
		}
		return nil
	})
}

// forEachField calls f with each field of a message that has a length, and skips others. It stops
// at the first error of f, and returns an error if data is not Protobuf.
func forEachField(data []byte, f func(field protowire.Number, value []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errors.New("a message is not Protobuf")
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, data); n < 0 {
				return errors.New("a message is not Protobuf")
			}
			data = data[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return errors.New("a message is not Protobuf")
		}
		if err := f(number, value); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
