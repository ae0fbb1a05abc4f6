package resource

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Resource is one encoded xDS resource. It is immutable and shared by every stream that is sent it.
type Resource struct {
	Name    string
	TypeURL string
	// Version is the content hash of Body in hexadecimal: 16 characters, the same for the same bytes everywhere.
	Version string
	// Body is the resource's own protobuf encoding, without the Any around it.
	Body []byte
	// From names the objects that shaped the resource, sorted, without duplicates.
	From []config.Key
	// Parts is what the resource was assembled from, if its maker wants it kept as long as the resource: the next
	// version may have most of it in common.
	Parts any
	// Refers gives the names of the clusters that it leads to; nil: none that would be missed.
	Refers func() []string
}

// Encode encodes a message canonically (map entries sorted) as the resource of that name.
func Encode(name, typeURL string, m proto.Message, from ...config.Key) (*Resource, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s %q: %w", typeURL, name, err)
	}
	return FromBytes(name, typeURL, body, from...), nil
}

// FromBytes makes a resource of finished bytes, which must be canonical and must not be changed any more.
func FromBytes(name, typeURL string, body []byte, from ...config.Key) *Resource {
	from = slices.Clone(from)
	slices.SortFunc(from, config.Key.Compare)
	return &Resource{Name: name, TypeURL: typeURL, Version: hash(body), Body: body, From: slices.Compact(from)}
}

// Pack encodes a message canonically into an Any, such as the configuration of a filter. It panics where the message cannot be encoded,
// as no message can be that is of our own making: strings in it are UTF-8, and required fields set.
func Pack(m proto.Message) *anypb.Any {
	out := new(anypb.Any)
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("pack %s: %v", m.ProtoReflect().Descriptor().FullName(), err))
	}
	return out
}

func hash(b []byte) string {
	var sum [8]byte
	h := xxhash.Sum64(b)
	for i := range sum {
		sum[i] = byte(h >> (56 - 8*i))
	}
	return hex.EncodeToString(sum[:])
}
