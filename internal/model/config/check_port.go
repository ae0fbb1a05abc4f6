package config

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const maxPort = 65535

// protocols are the names that a port of a ServiceEntry, Sidecar or Gateway may have, in upper case.
func protocols() []string {
	return []string{
		"HTTP", "HTTPS", "HTTP2", "HTTP_PROXY", "GRPC", "GRPC-WEB", "GRPC-WEB-TEXT", "TCP", "TLS", "UDP", "MONGO", "REDIS", "MYSQL",
	}
}

// portNumber checks a port that must be there.
func (r *report) portNumber(at path, number uint32) {
	if number < 1 || number > maxPort {
		r.errorf(at, "port %d is not in the range 1..%d", number, maxPort)
	}
}

// optionalPort checks a port for which 0 means that there is none.
func (r *report) optionalPort(at path, number uint32) {
	if number != 0 {
		r.portNumber(at, number)
	}
}

// protocol checks a protocol's name, any case allowed; without one it is found out from the bytes.
func (r *report) protocol(at path, name string) {
	if name != "" && !slices.Contains(protocols(), strings.ToUpper(name)) {
		r.errorf(at, "unknown protocol %q, must be one of %s", name, strings.Join(protocols(), ", "))
	}
}

// isTLS says that a protocol's name stands for TLS that the port itself terminates or passes through.
func isTLS(protocol string) bool {
	return strings.EqualFold(protocol, "TLS") || strings.EqualFold(protocol, "HTTPS")
}

// isHTTP says that requests of such a port are read.
func isHTTP(protocol string) bool {
	return slices.Contains([]string{"HTTP", "HTTP2", "HTTP_PROXY", "GRPC", "GRPC-WEB", "GRPC-WEB-TEXT"}, strings.ToUpper(protocol))
}

// portName checks the name of a service's port.
func (r *report) portName(at path, name string) {
	if len(validation.IsDNS1123Label(name)) > 0 {
		r.errorf(at, "%q is not a port name: it must be a DNS label (lower-case letters, digits and \"-\", at most 63 characters)", name)
	}
}
