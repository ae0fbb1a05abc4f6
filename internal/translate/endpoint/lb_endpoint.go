package endpoint

import (
	"net"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// appendLbEndpoint appends one endpoint, an LbEndpoint. Its address goes last, as encoders of Envoy's API have what is one of
// several. Further addresses are for Envoy's Happy Eyeballs, which it has for addresses that it does not resolve.
func appendLbEndpoint(b []byte, e weighted, resolved bool) []byte {
	b, whole := open(b, groupLbEndpoints)
	switch e.Health {
	case mesh.Unhealthy:
		b = appendNumber(b, lbEndpointHealth, uint32(corev3.HealthStatus_UNHEALTHY))
	case mesh.Draining:
		b = appendNumber(b, lbEndpointHealth, uint32(corev3.HealthStatus_DRAINING))
	}
	b = appendMetadata(b, e.Endpoint)
	b = appendWrapped(b, lbEndpointWeight, e.weight)
	b, target := open(b, lbEndpointEndpoint)
	b = appendAddress(b, endpointAddress, e.Address, e.Port)
	if e.TLSDisabled && !resolved && !strings.HasPrefix(e.Address, unixPrefix) {
		b = appendText(b, endpointHostname, plainHostname(e.Endpoint))
	}
	if !resolved {
		for _, a := range e.MoreAddresses {
			var more int
			b, more = open(b, endpointMoreAddresses)
			b = closed(appendAddress(b, additionalAddressValue, a, e.Port), more)
		}
	}
	return closed(closed(b, target), whole)
}

// plainHostname returns the hostname of an endpoint whose mutual TLS is disabled; all other endpoints
// have none. When only metadata changes, Envoy keeps the host and goes on using its pooled connections.
// When the hostname changes too (Envoy 1.39 and later), Envoy replaces the host: new requests open
// connections of the new mode, and unused connections close. The text is what Envoy itself reports as
// the name of a host without a hostname.
func plainHostname(e *mesh.Endpoint) string {
	return net.JoinHostPort(e.Address, strconv.FormatUint(uint64(e.Port), 10))
}

// appendMetadata appends how an endpoint is to be called (envoy.transport_socket_match.tlsMode, which clusters match), and what
// telemetry reads of it (istio.workload).
func appendMetadata(b []byte, e *mesh.Endpoint) []byte {
	w := workloadOf(e)
	if w.service == "" && !e.TLS {
		return b
	}
	b, metadata := open(b, lbEndpointMetadata)
	if e.TLS {
		b = appendField(b, "envoy.transport_socket_match", "tlsMode", func(b []byte) []byte { return append(b, "istio"...) })
	}
	if w.service != "" {
		b = appendField(b, "istio", "workload", w.append)
	}
	return closed(b, metadata)
}

// appendField appends a Struct of one text to a Metadata.
func appendField(b []byte, filter, name string, appendTo func([]byte) []byte) []byte {
	b, entry := open(b, metadataFilters)
	b = appendText(b, entryKey, filter)
	b, fields := open(b, entryValue)
	b, field := open(b, structFields)
	b = appendText(b, entryKey, name)
	b, value := open(b, entryValue)
	b, text := open(b, valueString)
	b = appendTo(b)
	for _, at := range [...]int{text, value, field, fields, entry} {
		b = closed(b, at)
	}
	return b
}

// appendAddress appends an Address: an IP or name and a port, or a Unix domain socket.
func appendAddress(b []byte, number protowire.Number, address string, port uint32) []byte {
	b, whole := open(b, number)
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		var pipe int
		b, pipe = open(b, addressPipe)
		b = closed(appendText(b, pipePath, path), pipe)
		return closed(b, whole)
	}
	b, socket := open(b, addressSocket)
	b = appendText(b, socketAddress, address)
	// A port of 0 is said too: it is one of several ways to say the port, of which one must be chosen.
	b = protowire.AppendVarint(protowire.AppendTag(b, socketPort, protowire.VarintType), uint64(port))
	return closed(closed(b, socket), whole)
}

// appendLocality appends a locality as Envoy has it; an unknown one is an empty message, not a missing one.
func appendLocality(b []byte, l mesh.Locality) []byte {
	b, at := open(b, groupLocality)
	b = appendText(b, localityRegion, l.Region)
	b = appendText(b, localityZone, l.Zone)
	b = appendText(b, localitySubZone, l.SubZone)
	return closed(b, at)
}
