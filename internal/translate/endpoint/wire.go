package endpoint

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Assignments are regenerated more often than any other resource and may have thousands of
// endpoints. So they are encoded directly: building messages and encoding them costs twenty times
// as much. TestWire checks the encoding against the messages of Envoy's API.

// Field numbers of the messages in an assignment, of package envoy.config.endpoint.v3 unless the
// comment names another.
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

// openMessage appends the beginning of an embedded message in a field: the tag, and one byte for
// the length. The caller appends the message and then calls closeMessage with the returned offset.
func openMessage(b []byte, field protowire.Number) (_ []byte, at int) {
	// room for the length of most messages
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

// closeMessage ends the message that openMessage began at the offset at. It writes the length
// before the message, moving the message if the length needs more than one byte, and returns the
// buffer.
func closeMessage(b []byte, at int) []byte {
	size := len(b) - at
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		b = slices.Grow(b, more)[:len(b)+more]
		copy(b[at+more:], b[at:at+size])
	}
	protowire.AppendVarint(b[:at-1], uint64(size))
	return b
}

// appendText appends a string field with its tag and length, unless text is empty.
func appendText(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// appendNumber appends a varint field with its tag, unless n is 0.
func appendNumber(b []byte, field protowire.Number, n uint32) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

// appendWrapped appends a google.protobuf.UInt32Value, also if n is 0.
func appendWrapped(b []byte, field protowire.Number, n uint32) []byte {
	b, at := openMessage(b, field)
	return closeMessage(appendNumber(b, wrappedValue, n), at)
}
