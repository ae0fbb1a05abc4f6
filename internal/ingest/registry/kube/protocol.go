package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// protocolOf returns the protocol of a port: from the part before the first "-" of appProtocol if
// that is set, else of the port's name (Istio's protocol selection). grpc-web, and the names that
// Kubernetes defines for appProtocol, are known as a whole. A port without a known protocol is
// Auto, or TCP on the usual ports of server-first protocols. For UDP and SCTP ports the transport
// protocol alone decides; SCTP is Unsupported.
func protocolOf(p corev1.ServicePort) mesh.Protocol {
	switch p.Protocol {
	case corev1.ProtocolUDP:
		return mesh.UDP
	case corev1.ProtocolSCTP:
		return mesh.Unsupported
	}
	declared := p.Name
	if p.AppProtocol != nil {
		declared = *p.AppProtocol
		// Names that Kubernetes defines. Names of other organizations ("example.com/foo") are
		// ignored.
		switch declared {
		case "kubernetes.io/h2c":
			return mesh.HTTP2
		case "kubernetes.io/ws":
			return mesh.HTTP
		case "kubernetes.io/wss":
			return mesh.HTTPS
		}
	}
	const grpcWeb = "grpc-web" // the only protocol whose name contains a "-"
	if len(declared) >= len(grpcWeb) && strings.EqualFold(declared[:len(grpcWeb)], grpcWeb) {
		return mesh.GRPCWeb
	}
	prefix, _, _ := strings.Cut(declared, "-")
	if protocol, known := mesh.ParseProtocol(prefix); known {
		return protocol
	}
	if isServerFirst(p.Port) {
		return mesh.TCP
	}
	return mesh.Auto
}

// isServerFirst reports whether Istio treats a port as TCP unless a protocol is declared. In SMTP,
// MySQL and MongoDB the server speaks first, so waiting for the client's first bytes to detect HTTP
// delays or breaks them. DNS over TCP is Istio's fourth port.
func isServerFirst(port int32) bool {
	return port == 25 || port == 53 || port == 3306 || port == 27017
}
