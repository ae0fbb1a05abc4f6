package grpc

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// These messages are generated, so they can always be decoded and encoded.

func decodeResource(r *resource.Resource, into proto.Message) {
	if err := proto.Unmarshal(r.Body, into); err != nil {
		panic("grpc: decode " + r.TypeURL + " " + r.Name + ": " + err.Error())
	}
}

func encodeResource(name, typeURL string, m proto.Message, from ...config.Key) *resource.Resource {
	r, err := resource.Encode(name, typeURL, m, from...)
	if err != nil {
		panic("grpc: " + err.Error())
	}
	return r
}

func packAny(m proto.Message) *anypb.Any { return resource.Pack(m) }
