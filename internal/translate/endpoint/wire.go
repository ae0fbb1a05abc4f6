package endpoint

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Assignments are the one kind of resource that is made again all the time and may have thousands of parts, so they are
// written as bytes: to build messages first and have them encoded costs twenty times as much. TestWire holds what is
// written here to what the messages of Envoy's API read from it.

// Field numbers of the messages that an assignment is made of, package envoy.config.endpoint.v3 where not said otherwise.
const (
	assignmentClusterName protowire.Number = 1 // ClusterLoadAssignment
	assignmentEndpoints   protowire.Number = 2

	groupLocality    protowire.Number = 1 // LocalityLbEndpoints
	groupLbEndpoints protowire.Number = 2
	groupWeight      protowire.Number = 3
	groupPriority    protowire.Number = 5

	lbEndpointEndpoint protowire.Number = 1 // LbEndpoint
	lbEndpointHealth   protowire.Number = 2
	lbEndpointMetadata protowire.Number = 3
	lbEndpointWeight   protowire.Number = 4

	endpointAddress        protowire.Number = 1 // Endpoint
	endpointHostname       protowire.Number = 3
	endpointMoreAddresses  protowire.Number = 4
	additionalAddressValue protowire.Number = 1 // Endpoint.AdditionalAddress
	addressSocket          protowire.Number = 1 // envoy.config.core.v3.Address
	addressPipe            protowire.Number = 2
	socketAddress          protowire.Number = 2 // envoy.config.core.v3.SocketAddress
	socketPort             protowire.Number = 3
	pipePath               protowire.Number = 1 // envoy.config.core.v3.Pipe
	localityRegion         protowire.Number = 1 // envoy.config.core.v3.Locality
	localityZone           protowire.Number = 2
	localitySubZone        protowire.Number = 3
	metadataFilters        protowire.Number = 1 // envoy.config.core.v3.Metadata
	structFields           protowire.Number = 1 // google.protobuf.Struct
	valueString            protowire.Number = 3 // google.protobuf.Value
	wrappedValue           protowire.Number = 1 // google.protobuf.UInt32Value
	entryKey               protowire.Number = 1 // of any map
	entryValue             protowire.Number = 2
)

// open begins a message in a field of that number; closed ends it, at being what open gave.
func open(b []byte, field protowire.Number) (_ []byte, at int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0) // one byte is room for the length of most
	return b, len(b)
}

func closed(b []byte, at int) []byte {
	size := len(b) - at
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		b = slices.Grow(b, more)[:len(b)+more]
		copy(b[at+more:], b[at:at+size])
	}
	protowire.AppendVarint(b[:at-1], uint64(size))
	return b
}

// appendText appends a string, nothing if it is empty.
func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// appendNumber appends a number, nothing if it is 0.
func appendNumber(b []byte, field protowire.Number, n uint32) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

// appendWrapped appends a google.protobuf.UInt32Value.
func appendWrapped(b []byte, field protowire.Number, n uint32) []byte {
	b, at := open(b, field)
	return closed(appendNumber(b, wrappedValue, n), at)
}
