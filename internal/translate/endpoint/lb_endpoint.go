package endpoint

import (
	"net"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// appendLbEndpoint appends e to b as an LbEndpoint: health if it is unhealthy or draining, metadata
// (appendMetadata), weight and address. A hostname is set only if e has TLSDisabled and is not a
// Unix socket. If Envoy resolves the addresses by DNS (resolved), hostname and additional addresses
// are omitted. The address comes last, where encoders of Envoy's API put members of a oneof.
func appendLbEndpoint(b []byte, e weighted, resolved bool) []byte {
	b, whole := openMessage(b, groupLbEndpoints)
	switch e.Health {
	case mesh.Unhealthy:
		b = appendNumber(b, lbEndpointHealth, uint32(corev3.HealthStatus_UNHEALTHY))
	case mesh.Draining:
		b = appendNumber(b, lbEndpointHealth, uint32(corev3.HealthStatus_DRAINING))
	}
	b = appendMetadata(b, e.Endpoint)
	b = appendWrapped(b, lbEndpointWeight, e.weight)
	b, target := openMessage(b, lbEndpointEndpoint)
	b = appendAddress(b, endpointAddress, e.Address, e.Port)
	if e.TLSDisabled && !resolved && !config.IsSocket(e.Address) {
		b = appendText(b, endpointHostname, plainHostname(e.Endpoint))
	}
	if !resolved {
		for _, a := range e.MoreAddresses {
			var more int
			b, more = openMessage(b, endpointMoreAddresses)
			b = closeMessage(appendAddress(b, additionalAddressValue, a, e.Port), more)
		}
	}
	return closeMessage(closeMessage(b, target), whole)
}

// plainHostname returns the hostname of an endpoint whose mutual TLS is disabled; all other
// endpoints have none. When only metadata changes, Envoy keeps the host and goes on using its
// pooled connections. When the hostname changes too (Envoy 1.39 and later), Envoy replaces the
// host: new requests open connections of the new mode, and unused connections close. The text is
// what Envoy itself reports as the name of a host without a hostname.
func plainHostname(e *mesh.Endpoint) string {
	return net.JoinHostPort(e.Address, strconv.FormatUint(uint64(e.Port), 10))
}

// appendMetadata appends the endpoint's TLS mode (envoy.transport_socket_match.tlsMode, which
// clusters match) and its workload for telemetry (istio.workload). It appends nothing for an
// endpoint without mutual TLS and with an unknown workload.
func appendMetadata(b []byte, e *mesh.Endpoint) []byte {
	w := workloadOf(e)
	if w.service == "" && !e.TLS {
		return b
	}
	b, metadata := openMessage(b, lbEndpointMetadata)
	if e.TLS {
		b = appendField(
			b,
			"envoy.transport_socket_match",
			"tlsMode",
			func(b []byte) []byte { return append(b, "istio"...) },
		)
	}
	if w.service != "" {
		b = appendField(b, "istio", "workload", w.appendTo)
	}
	return closeMessage(b, metadata)
}

// appendField appends a field with a string, which appendTo appends, to a Metadata, in the metadata
// namespace filter.
func appendField(b []byte, filter, name string, appendTo func([]byte) []byte) []byte {
	b, entry := openMessage(b, metadataFilters)
	b = appendText(b, entryKey, filter)
	b, fields := openMessage(b, entryValue)
	b, field := openMessage(b, structFields)
	b = appendText(b, entryKey, name)
	b, value := openMessage(b, entryValue)
	b, text := openMessage(b, valueString)
	b = appendTo(b)
	for _, at := range [...]int{text, value, field, fields, entry} {
		b = closeMessage(b, at)
	}
	return b
}

// appendAddress appends an Address to b as the field number: an IP or name with a port, or a Unix
// domain socket ("unix://PATH", without port).
func appendAddress(b []byte, number protowire.Number, address string, port uint32) []byte {
	b, whole := openMessage(b, number)
	if path, ok := strings.CutPrefix(address, config.SocketPrefix); ok {
		var pipe int
		b, pipe = openMessage(b, addressPipe)
		b = closeMessage(appendText(b, pipePath, path), pipe)
		return closeMessage(b, whole)
	}
	b, socket := openMessage(b, addressSocket)
	b = appendText(b, socketAddress, address)
	// Port 0 is encoded too: the port is a required oneof.
	b = protowire.AppendVarint(protowire.AppendTag(b, socketPort, protowire.VarintType), uint64(port))
	return closeMessage(closeMessage(b, socket), whole)
}

// appendLocality appends a Locality. An unknown one is encoded as an empty message, not omitted.
func appendLocality(b []byte, l mesh.Locality) []byte {
	b, at := openMessage(b, groupLocality)
	b = appendText(b, localityRegion, l.Region)
	b = appendText(b, localityZone, l.Zone)
	b = appendText(b, localitySubZone, l.SubZone)
	return closeMessage(b, at)
}
