package grpc

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// These messages are generated, so they can always be decoded and encoded.

// decodeResource decodes the body of a generated resource, and panics if that fails.
func decodeResource(r *resource.Resource, into proto.Message) {
	if err := proto.Unmarshal(r.Body, into); err != nil {
		panic("grpc: decode " + r.TypeURL + " " + r.Name + ": " + err.Error())
	}
}

// encodeResource returns the encoded resource, which derives from the objects from. It panics if m
// cannot be encoded.
func encodeResource(name, typeURL string, m proto.Message, from ...config.Key) *resource.Resource {
	r, err := resource.Encode(name, typeURL, m, from...)
	if err != nil {
		panic("grpc: " + err.Error())
	}
	return r
}

// packAny returns m packed in an Any. It panics if m cannot be encoded.
func packAny(m proto.Message) *anypb.Any { return resource.Pack(m) }
