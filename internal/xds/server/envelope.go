package server

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Field numbers of DiscoveryResponse, DeltaDiscoveryResponse and ControlPlane in
// envoy.service.discovery.v3.
const (
	sotwVersion      = 1
	sotwType         = 4
	sotwNonce        = 5
	sotwControlPlane = 6

	deltaVersion      = 1
	deltaType         = 4
	deltaNonce        = 5
	deltaRemoved      = 6
	deltaControlPlane = 7

	controlPlaneIdentifier = 1
)

// response is an encoded response: shared resources, followed by the stream's own envelope.
type response struct {
	buffers  mem.BufferSlice
	envelope *[]byte
	size     int
}

// wire is the encoded form of resources in responses. All streams of one protocol variant share it.
type wire struct {
	buffers []mem.Buffer
	size    int
}

// newResponse encodes a response. It appends all fields but the resources to *envelope, and
// reserves a last place in buffers for it, which writeEncoded fills.
func newResponse(s *stream.Send, mode stream.Mode, identifier string, envelope *[]byte) *response {
	*envelope = appendEnvelope(*envelope, s, mode, identifier)
	r := &response{envelope: envelope, size: len(*envelope)}
	n := 1
	for _, p := range s.Parts {
		n += len(wireOf(p, mode).buffers)
	}
	r.buffers = make(mem.BufferSlice, 0, n)
	for _, p := range s.Parts {
		w := wireOf(p, mode)
		r.buffers = append(r.buffers, w.buffers...)
		r.size += w.size
	}
	return r
}

// appendEnvelope appends all encoded fields of a response except the resources to b. For Delta
// these include the removed names. Without an identifier the control_plane field is left out.
func appendEnvelope(b []byte, s *stream.Send, mode stream.Mode, identifier string) []byte {
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

// appendControlPlane appends a ControlPlane with the identifier as the given field, or nothing if
// the identifier is empty.
func appendControlPlane(b []byte, field protowire.Number, identifier string) []byte {
	if identifier == "" {
		return b
	}
	return protowire.AppendBytes(
		protowire.AppendTag(b, field, protowire.BytesType),
		appendString(nil, controlPlaneIdentifier, identifier),
	)
}

// wireOf returns the encoded resources of a payload for the protocol variant. They are encoded once
// and shared by all streams, so they must not be changed. It panics if another package has encoded
// the payload for this mode.
func wireOf(p *stream.Payload, mode stream.Mode) *wire {
	encode := encodeSotW
	if mode == stream.Delta {
		encode = encodeDelta
	}
	w, ok := p.Form(mode, encode).(*wire)
	if !ok {
		panic("xds/server: a payload's wire form has another type")
	}
	return w
}

// small is the size up to which bytes of a resource are copied together with their neighbours.
// Larger ones are a buffer of their own in every message.
const small = 512

// encodeDelta returns a *wire: the resources encoded as the field resources of a
// DeltaDiscoveryResponse.
func encodeDelta(list []*resource.Resource) any {
	return encodeResources(list, func(b []byte, r *resource.Resource) (head, rest []byte) {
		if r.Element != nil {
			return b, r.Element
		}
		return r.AppendDeltaHead(b), r.Body
	})
}

// encodeSotW returns a *wire: the resources encoded as the field resources of a DiscoveryResponse.
func encodeSotW(list []*resource.Resource) any {
	return encodeResources(list, func(b []byte, r *resource.Resource) (head, rest []byte) {
		return r.AppendSotWHead(b), r.Body
	})
}

// encodeResources returns the *wire of a list. encode appends the head of a resource's encoding to
// a slice, and returns the rest of the encoding, which is referenced and not copied if it is larger
// than small.
func encodeResources(
	list []*resource.Resource,
	encode func([]byte, *resource.Resource) (head, rest []byte),
) any {
	w := new(wire)
	copied, flushed, buffers := 0, 0, 1
	var room []byte
	for _, r := range list {
		head, rest := encode(room[:0], r)
		room = head
		w.size += len(head) + len(rest)
		if copied += len(head); len(rest) <= small {
			copied += len(rest)
			continue
		}
		if buffers++; copied > flushed {
			buffers++
			flushed = copied
		}
	}
	w.buffers = make([]mem.Buffer, 0, buffers)
	// The values of the interfaces in w.buffers are in one slice, so that they need one allocation.
	values := make([]mem.SliceBuffer, 0, buffers)
	add := func(b []byte) {
		values = append(values, b)
		w.buffers = append(w.buffers, &values[len(values)-1])
	}
	b := make([]byte, 0, copied)
	begin := 0
	flush := func() {
		if len(b) > begin {
			add(b[begin:len(b):len(b)])
			begin = len(b)
		}
	}
	for _, r := range list {
		var rest []byte
		if b, rest = encode(b, r); len(rest) <= small {
			b = append(b, rest...)
			continue
		}
		flush()
		add(rest)
	}
	flush()
	return w
}

// appendString appends a string field of a protobuf message, even if s is "".
func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
