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

// Resource is one encoded xDS resource. It is immutable and shared by all streams.
type Resource struct {
	Name    string
	TypeURL string
	// Version is the content hash of Body in hexadecimal, 16 characters.
	Version string
	// Body is the protobuf encoding of the resource, without the Any around it.
	Body []byte
	// Element is the resource as an encoded element of DeltaDiscoveryResponse.resources, with tag and
	// length, or nil if that is larger than 8 KiB. Body is its last part and shares its memory.
	Element []byte
	// From are the keys of the objects that the resource was generated from, sorted, without
	// duplicates.
	From []config.Key
	// Parts are the parts that the resource was assembled from, if its generator wants to keep them
	// as long as the resource. The next version may reuse most of them.
	Parts any
	// Refers returns the names of the clusters that the resource references. If nil, it references
	// none that must exist first.
	Refers func() []string
	// Pins returns the names of the clusters that the resource uses without fetching them on demand,
	// for example as mirrors: a proxy must have them at all times (ADR 52). If nil, it uses none.
	Pins func() []string
	// Placeholder is set if nothing of this name exists. The resource only ends the wait of a client
	// that requested it.
	Placeholder bool
}

// Encode encodes a message deterministically and returns it as a resource. from are the objects
// that it was generated from. It returns an error if the message cannot be encoded, for example
// because a string is not UTF-8.
func Encode(name, typeURL string, m proto.Message, from ...config.Key) (*Resource, error) {
	options := proto.MarshalOptions{Deterministic: true}
	b, head := newBuffer(name, typeURL, options.Size(m))
	options.UseCachedSize = true
	b, err := options.MarshalAppend(b, m)
	if err != nil {
		return nil, fmt.Errorf("encode %s %q: %w", typeURL, name, err)
	}
	return newResource(name, typeURL, b, head, from), nil
}

// FromBytes returns a resource with an encoded body, which must be canonical and must not be
// modified afterwards. from are the objects that it was generated from, in any order and with
// duplicates.
func FromBytes(name, typeURL string, body []byte, from ...config.Key) *Resource {
	if elementHead(name, typeURL, len(body)) > 0 {
		return CopyBytes(name, typeURL, body, from...)
	}
	return newResource(name, typeURL, body, 0, from)
}

// CopyBytes returns the resource of FromBytes with a copy of body, which the caller may reuse.
func CopyBytes(name, typeURL string, body []byte, from ...config.Key) *Resource {
	b, head := newBuffer(name, typeURL, len(body))
	return newResource(name, typeURL, append(b, body...), head, from)
}

// newBuffer returns a buffer for newResource, to which a body of size bytes must be appended. Its
// length is head, the result of elementHead.
func newBuffer(name, typeURL string, size int) (b []byte, head int) {
	head = elementHead(name, typeURL, size)
	return make([]byte, head, head+size), head
}

// newResource returns the resource whose body is b[head:]. If head is not 0, it is the result of
// elementHead, and b becomes the Element: its head is written to b[:head].
func newResource(name, typeURL string, b []byte, head int, from []config.Key) *Resource {
	from = slices.Clone(from)
	slices.SortFunc(from, config.Key.Compare)
	body := b[head:]
	r := &Resource{Name: name, TypeURL: typeURL, Version: hash(body), Body: body, From: slices.Compact(from)}
	if head > 0 {
		appendDeltaHead(b[:0], name, typeURL, r.Version, len(body))
		r.Element = b
	}
	return r
}

// Pack encodes a message deterministically into an Any, for example the configuration of a filter.
// It panics if the message cannot be encoded, which cannot happen for generated messages: their
// strings are UTF-8 and required fields are set.
func Pack(m proto.Message) *anypb.Any {
	out := new(anypb.Any)
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("pack %s: %v", m.ProtoReflect().Descriptor().FullName(), err))
	}
	return out
}

// hash returns the 64-bit hash of b in hexadecimal, 16 characters.
func hash(b []byte) string {
	var sum [8]byte
	h := xxhash.Sum64(b)
	for i := range sum {
		sum[i] = byte(h >> (56 - 8*i))
	}
	return hex.EncodeToString(sum[:])
}
