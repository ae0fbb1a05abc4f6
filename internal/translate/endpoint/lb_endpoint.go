package endpoint

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// appendLbEndpoint appends one endpoint, an LbEndpoint. Its address goes last, as encoders of Envoy's API have what is one of
// several. Further addresses are for Envoy's Happy Eyeballs, which it has for addresses that it does not resolve.
func appendLbEndpoint(b []byte, e weighted, resolved bool) []byte {
	b, whole := open(b, groupLbEndpoints)
	if e.Health == mesh.Unhealthy {
		b = appendNumber(b, lbEndpointHealth, uint32(corev3.HealthStatus_UNHEALTHY))
	}
	b = appendMetadata(b, e.Endpoint)
	b = appendWrapped(b, lbEndpointWeight, e.weight)
	b, target := open(b, lbEndpointEndpoint)
	b = appendAddress(b, endpointAddress, e.Address, e.Port)
	if !resolved {
		for _, a := range e.MoreAddresses {
			var more int
			b, more = open(b, endpointMoreAddresses)
			b = closed(appendAddress(b, additionalAddressValue, a, e.Port), more)
		}
	}
	return closed(closed(b, target), whole)
}

// appendMetadata appends what telemetry reads of an endpoint: filter_metadata.istio.workload.
func appendMetadata(b []byte, e *mesh.Endpoint) []byte {
	w := workloadOf(e)
	if w.service == "" {
		return b
	}
	b, metadata := open(b, lbEndpointMetadata)
	b, filter := open(b, metadataFilters)
	b = appendText(b, entryKey, "istio")
	b, fields := open(b, entryValue)
	b, field := open(b, structFields)
	b = appendText(b, entryKey, "workload")
	b, value := open(b, entryValue)
	b, text := open(b, valueString)
	b = w.append(b)
	for _, at := range [...]int{text, value, field, fields, filter, metadata} {
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
