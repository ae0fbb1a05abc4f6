package server

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Field numbers of DiscoveryResponse, DeltaDiscoveryResponse, Resource and ControlPlane in
// envoy.service.discovery.v3, and of google.protobuf.Any.
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

// small is the size up to which a resource's bytes are copied together with their neighbours. A
// larger body is a buffer of its own in every message.
const small = 512

// encodeDelta returns a *wire: the resources encoded as the field resources of a
// DeltaDiscoveryResponse.
func encodeDelta(list []*resource.Resource) any { return encodeResources(list, sizeDelta, appendDelta) }

// encodeSotW returns a *wire: the resources encoded as the field resources of a DiscoveryResponse.
func encodeSotW(list []*resource.Resource) any { return encodeResources(list, sizeSotW, appendSotW) }

// encodeResources returns the *wire of a list: for each resource the output of head, followed by
// its body. size returns the size of both together. Bodies larger than small are referenced and not
// copied.
func encodeResources(
	list []*resource.Resource,
	size func(*resource.Resource) int,
	head func([]byte, *resource.Resource) []byte,
) any {
	w := new(wire)
	copied, big := 0, 0
	for _, r := range list {
		n := size(r)
		w.size += n
		if copied += n; len(r.Body) > small {
			copied -= len(r.Body)
			big++
		}
	}
	w.buffers = make([]mem.Buffer, 0, 2*big+1)
	b := make([]byte, 0, copied)
	begin := 0
	flush := func() {
		if len(b) > begin {
			w.buffers = append(w.buffers, mem.SliceBuffer(b[begin:len(b):len(b)]))
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
	}
	flush()
	return w
}

// The body is the last field of a Resource, after name and version. It is an Any whose value is
// last.

// sizeResource returns the encoded size of a discovery Resource with name, version and body,
// without the tag and length of its own field.
func sizeResource(r *resource.Resource) int {
	return sizeBytes(
		resourceName,
		len(r.Name),
	) + sizeBytes(
		resourceVersion,
		len(r.Version),
	) + sizeBytes(
		resourceBody,
		sizeAny(r),
	)
}

// sizeDelta returns the encoded size of a resource as an element of
// DeltaDiscoveryResponse.resources, with tag and length.
func sizeDelta(r *resource.Resource) int { return sizeBytes(deltaResources, sizeResource(r)) }

// appendDelta appends a resource as an element of DeltaDiscoveryResponse.resources, without the
// bytes of its body.
func appendDelta(b []byte, r *resource.Resource) []byte {
	b = appendLength(b, deltaResources, sizeResource(r))
	b = appendString(b, resourceName, r.Name)
	b = appendString(b, resourceVersion, r.Version)
	b = appendLength(b, resourceBody, sizeAny(r))
	return appendAny(b, r)
}

// sizeSotW returns the encoded size of a resource as an element of DiscoveryResponse.resources,
// with tag and length.
func sizeSotW(r *resource.Resource) int { return sizeBytes(sotwResources, sizeAny(r)) }

// appendSotW appends a resource as an element of DiscoveryResponse.resources, without the bytes of
// its body.
func appendSotW(b []byte, r *resource.Resource) []byte {
	return appendAny(appendLength(b, sotwResources, sizeAny(r)), r)
}

// sizeAny returns the encoded size of a resource as an Any, without the tag and length of its own
// field.
func sizeAny(r *resource.Resource) int {
	return sizeBytes(anyType, len(r.TypeURL)) + sizeBytes(anyValue, len(r.Body))
}

// appendAny appends the type URL of an Any, and the tag and length of its value, without the
// value's bytes.
func appendAny(b []byte, r *resource.Resource) []byte {
	return appendLength(appendString(b, anyType, r.TypeURL), anyValue, len(r.Body))
}

// sizeBytes returns the encoded size of a field that holds n bytes, with tag and length.
func sizeBytes(field protowire.Number, n int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// appendLength appends the tag and length of a field that holds n bytes.
func appendLength(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(n))
}

// appendString appends a string field of a protobuf message, even if s is "".
func appendString(b []byte, field protowire.Number, s string) []byte {
	return append(appendLength(b, field, len(s)), s...)
}
