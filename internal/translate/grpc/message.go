package grpc

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// The messages here are of our own making: they can always be read and written.

func decode(r *resource.Resource, into proto.Message) {
	if err := proto.Unmarshal(r.Body, into); err != nil {
		panic("grpc: decode " + r.TypeURL + " " + r.Name + ": " + err.Error())
	}
}

func encode(name, typeURL string, m proto.Message, from ...config.Key) *resource.Resource {
	r, err := resource.Encode(name, typeURL, m, from...)
	if err != nil {
		panic("grpc: " + err.Error())
	}
	return r
}

func packed(m proto.Message) *anypb.Any { return resource.Pack(m) }
