package config

import (
	"slices"
	"strings"
)

const maxPort = 65535

// portProtocols returns the protocols that a port of a ServiceEntry, Sidecar or Gateway may have,
// in upper case.
func portProtocols() []string {
	return []string{
		"HTTP",
		"HTTPS",
		"HTTP2",
		"HTTP_PROXY",
		"GRPC",
		"GRPC-WEB",
		"GRPC-WEB-TEXT",
		"TCP",
		"TLS",
		"UDP",
		"MONGO",
		"REDIS",
		"MYSQL",
	}
}

// checkPortNumber adds an Error if a required port is not in the range 1 to maxPort.
func (r *report) checkPortNumber(at path, number uint32) {
	if number < 1 || number > maxPort {
		r.errorf(at, "port %d is not in the range 1..%d", number, maxPort)
	}
}

// checkOptionalPort adds an Error for an invalid port. 0 means that there is none, and is valid.
func (r *report) checkOptionalPort(at path, number uint32) {
	if number != 0 {
		r.checkPortNumber(at, number)
	}
}

// checkProtocol adds an Error for an unknown name of a protocol, in any case. It may be empty; then
// the proxy detects the protocol.
func (r *report) checkProtocol(at path, name string) {
	if name != "" && !slices.Contains(portProtocols(), strings.ToUpper(name)) {
		r.errorf(at, "unknown protocol %q, must be one of %s", name, strings.Join(portProtocols(), ", "))
	}
}

// isTLS reports whether a port's protocol is TLS or HTTPS, in any case. The proxy terminates TLS at
// such a port, or passes it through.
func isTLS(protocol string) bool {
	return strings.EqualFold(protocol, "TLS") || strings.EqualFold(protocol, "HTTPS")
}

// isHTTP reports whether proxies parse the requests to a port with this protocol, in any case:
// HTTP, HTTP2, HTTP_PROXY, GRPC, GRPC-WEB or GRPC-WEB-TEXT. It returns false for HTTPS.
func isHTTP(protocol string) bool {
	return slices.Contains(
		[]string{"HTTP", "HTTP2", "HTTP_PROXY", "GRPC", "GRPC-WEB", "GRPC-WEB-TEXT"},
		strings.ToUpper(protocol),
	)
}

// checkPortName adds an Error if name is not a DNS label in upper or lower case, as the name of a
// service's port must be.
func (r *report) checkPortName(at path, name string) {
	if !isHostLabel(name) {
		r.errorf(at,
			"%q is not a port name: it must be a DNS label (letters, digits and \"-\", at most 63 characters)",
			name)
	}
}
