package server

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Field numbers of envoy.service.discovery.v3: DiscoveryResponse, DeltaDiscoveryResponse, Resource, ControlPlane; and of
// google.protobuf.Any.
const (
	sotwVersion      = 1
	sotwResources    = 2
	sotwType         = 4
	sotwNonce        = 5
	sotwControlPlane = 6

	deltaVersion      = 1
	deltaResources    = 2
	deltaType         = 4
	deltaNonce        = 5
	deltaRemoved      = 6
	deltaControlPlane = 7

	resourceVersion = 1
	resourceBody    = 2
	resourceName    = 3

	anyType  = 1
	anyValue = 2

	controlPlaneIdentifier = 1
)

// response is an encoded response: the stream's own envelope, and shared resources.
type response struct {
	buffers mem.BufferSlice
	size    int
}

// wire is resources as they go into responses, shared by all of one mode.
type wire struct {
	buffers []mem.Buffer
	size    int
}

// newResponse encodes a response.
func newResponse(s *stream.Send, mode stream.Mode, identifier string) *response {
	head := envelope(s, mode, identifier)
	r := &response{size: len(head)}
	n := 1
	parts := make([]*wire, len(s.Parts))
	for i, p := range s.Parts {
		parts[i] = wireOf(p, mode)
		n += len(parts[i].buffers)
	}
	r.buffers = append(make(mem.BufferSlice, 0, n), mem.SliceBuffer(head))
	for _, w := range parts {
		r.buffers = append(r.buffers, w.buffers...)
		r.size += w.size
	}
	return r
}

// envelope encodes everything of a response but the resources.
func envelope(s *stream.Send, mode stream.Mode, identifier string) []byte {
	size := len(s.Version) + len(s.TypeURL) + len(s.Nonce) + len(identifier) + 32
	for _, n := range s.Removed {
		size += len(n) + 4
	}
	b := make([]byte, 0, size)
	if mode == stream.Delta {
		b = appendString(b, deltaVersion, s.Version)
		b = appendString(b, deltaType, s.TypeURL)
		b = appendString(b, deltaNonce, s.Nonce)
		for _, n := range s.Removed {
			b = appendString(b, deltaRemoved, n)
		}
		return appendControlPlane(b, deltaControlPlane, identifier)
	}
	b = appendString(b, sotwVersion, s.Version)
	b = appendString(b, sotwType, s.TypeURL)
	b = appendString(b, sotwNonce, s.Nonce)
	return appendControlPlane(b, sotwControlPlane, identifier)
}

func appendControlPlane(b []byte, field protowire.Number, identifier string) []byte {
	if identifier == "" {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), appendString(nil, controlPlaneIdentifier, identifier))
}

func wireOf(p *stream.Payload, mode stream.Mode) *wire {
	encode := encodeSotW
	if mode == stream.Delta {
		encode = encodeDelta
	}
	w, ok := p.Form(mode, encode).(*wire)
	if !ok {
		panic("xds/server: a payload's wire form was made by somebody else")
	}
	return w
}

// small is up to what size a resource's bytes are copied together with their neighbours, rather than being a buffer of their
// own in every message.
const small = 512

// encodeDelta encodes resources as the field resources of a DeltaDiscoveryResponse: for each a Resource of name, version
// and an Any, with the body last.
func encodeDelta(list []*resource.Resource) any {
	return encode(list, func(b []byte, r *resource.Resource) []byte {
		inner := sizeAny(r)
		b = protowire.AppendTag(b, deltaResources, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizeString(resourceName, r.Name)+sizeString(resourceVersion, r.Version)+sizeMessage(resourceBody, inner)))
		b = appendString(b, resourceName, r.Name)
		b = appendString(b, resourceVersion, r.Version)
		b = protowire.AppendTag(b, resourceBody, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(inner))
		return appendAnyHead(b, r)
	})
}

// encodeSotW encodes resources as the field resources of a DiscoveryResponse: for each an Any.
func encodeSotW(list []*resource.Resource) any {
	return encode(list, func(b []byte, r *resource.Resource) []byte {
		b = protowire.AppendTag(b, sotwResources, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(sizeAny(r)))
		return appendAnyHead(b, r)
	})
}

// encode makes buffers of what head gives for each resource, followed by its body. Big bodies are used where they are.
func encode(list []*resource.Resource, head func([]byte, *resource.Resource) []byte) any {
	size := 0
	for _, r := range list {
		size += len(head(nil, r))
		if len(r.Body) <= small {
			size += len(r.Body)
		}
	}
	w := new(wire)
	b := make([]byte, 0, size)
	begin := 0
	flush := func() {
		if len(b) > begin {
			w.buffers = append(w.buffers, mem.SliceBuffer(b[begin:len(b):len(b)]))
			w.size += len(b) - begin
			begin = len(b)
		}
	}
	for _, r := range list {
		if b = head(b, r); len(r.Body) <= small {
			b = append(b, r.Body...)
			continue
		}
		flush()
		w.buffers = append(w.buffers, mem.SliceBuffer(r.Body))
		w.size += len(r.Body)
	}
	flush()
	return w
}

func sizeAny(r *resource.Resource) int {
	return sizeString(anyType, r.TypeURL) + sizeMessage(anyValue, len(r.Body))
}

func sizeString(field protowire.Number, s string) int { return sizeMessage(field, len(s)) }

func sizeMessage(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// appendAnyHead appends an Any but for the bytes of its value.
func appendAnyHead(b []byte, r *resource.Resource) []byte {
	b = appendString(b, anyType, r.TypeURL)
	b = protowire.AppendTag(b, anyValue, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(len(r.Body)))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
