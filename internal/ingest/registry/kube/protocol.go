package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// protocolOf says what a port speaks: by appProtocol if that is given, else by the part of the port's name before the
// first "-" (Istio's protocol selection).
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
		// Kubernetes' own standard names; those of other organisations ("example.com/foo") say nothing to a mesh.
		switch declared {
		case "kubernetes.io/h2c":
			return mesh.HTTP2
		case "kubernetes.io/ws":
			return mesh.HTTP
		case "kubernetes.io/wss":
			return mesh.HTTPS
		}
	}
	const grpcWeb = "grpc-web" // the one protocol whose name has a "-" in it
	if len(declared) >= len(grpcWeb) && strings.EqualFold(declared[:len(grpcWeb)], grpcWeb) {
		return mesh.GRPCWeb
	}
	prefix, _, _ := strings.Cut(declared, "-")
	if protocol, known := mesh.ParseProtocol(prefix); known {
		return protocol
	}
	if serverFirst(p.Port) {
		return mesh.TCP
	}
	return mesh.Auto
}

// serverFirst says whether a port is one of those that Istio takes for TCP unless something else is declared: in SMTP,
// MySQL and MongoDB the server speaks first, so a proxy that waits for the client's first bytes to detect HTTP delays or
// breaks them. DNS over TCP is Istio's fourth.
func serverFirst(port int32) bool {
	return port == 25 || port == 53 || port == 3306 || port == 27017
}
