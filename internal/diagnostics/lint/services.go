package lint

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
)

// controlPlaneNames returns the values of the labels app and istio at Services of the control
// plane, which are not checked.
func controlPlaneNames() []string { return []string{"istiod", "pilot", "istio-pilot"} }

// protocols returns the protocols that the first part of a port name can declare.
func protocols() []string {
	return []string{
		"http", "https", "http2", "http_proxy", "grpc", "grpc-web", "tcp", "tls", "udp", "mongo", "redis", "mysql",
		"hbone",
	}
}

// declaresProtocol reports whether a port declares a protocol. It does by the transport UDP, as a
// well-known port of a server-first protocol, or by its appProtocol, else its name. That must be a
// known protocol, or begin with one before "-", in any case; kubernetes.io/h2c, ws and wss are
// known only as appProtocol.
func declaresProtocol(p corev1.ServicePort) bool {
	name := p.Name
	if p.AppProtocol != nil && *p.AppProtocol != "" {
		name = *p.AppProtocol
		if name == "kubernetes.io/h2c" || name == "kubernetes.io/ws" || name == "kubernetes.io/wss" {
			return true
		}
	}
	if p.Protocol == corev1.ProtocolUDP {
		return true
	}
	// Istio treats well-known ports of protocols in which the server speaks first as TCP.
	if slices.Contains([]int32{25, 53, 3306, 27017}, p.Port) {
		return true
	}
	name = strings.ToLower(name)
	first, _, _ := strings.Cut(name, "-")
	return slices.Contains(protocols(), first) || name == "grpc-web" || strings.HasPrefix(name, "grpc-web-")
}

// isSystemNamespace reports whether a namespace is the root namespace, or one of Kubernetes by its
// name: "kube-" and more, or local-path-storage.
func (r *analysisRun) isSystemNamespace(name string) bool {
	return strings.HasPrefix(name, "kube-") || name == "local-path-storage" || name == r.snapshot.Settings.RootNamespace
}

// checkPortNames reports ports of Services that declare no protocol (declaresProtocol), and of
// external names also ports named "tcp". Services of the control plane, of gateways that it manages
// and of system namespaces are skipped.
func (r *analysisRun) checkPortNames() {
	for _, o := range r.ofKind(api.Service) {
		if slices.Contains(controlPlaneNames(), o.meta.Labels["app"]) ||
			slices.Contains(controlPlaneNames(), o.meta.Labels["istio"]) ||
			o.meta.Labels["release"] == "istio" || r.isSystemNamespace(o.key.Namespace) ||
			strings.HasPrefix(o.meta.Labels[label.GatewayManaged.Name], "istio.io") {
			continue
		}
		spec := decodeAs[corev1.Service](o).Spec
		for i, p := range spec.Ports {
			field := fmt.Sprintf("spec.ports[%d].name", i)
			switch external := spec.Type == corev1.ServiceTypeExternalName; {
			case external && (p.Name == "tcp" || !declaresProtocol(p)):
				r.report(
					code.ExternalNameServiceTypeInvalidPortName,
					o,
					field,
					"%q declares no HTTP or TLS protocol, in a Service of type ExternalName",
					p.Name,
				)
			case !external && !declaresProtocol(p):
				r.report(
					code.PortNameIsNotUnderNamingConvention,
					o,
					field,
					"%q of port %d does not begin with a protocol, and appProtocol is not set",
					p.Name,
					p.Port,
				)
			}
		}
	}
}

// negativeConditions returns the types of conditions of a kind whose status False is reported, or
// nil if its conditions are not checked.
func negativeConditions(kind api.Kind) []string {
	switch kind {
	case api.Service, api.ServiceEntry, api.WorkloadEntry:
		return []string{"istio.io/WaypointBound"}
	case api.AuthorizationPolicy:
		return []string{"ZtunnelAccepted", "WaypointAccepted"}
	case api.KubernetesGateway, api.HTTPRoute, api.GRPCRoute, api.TLSRoute, api.TCPRoute, api.UDPRoute:
		return []string{"Accepted", "Programmed", "ResolvedRefs"}
	default:
		return nil
	}
}

// withStatus is the part of an object with its conditions.
type withStatus struct {
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
		Parents    []struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	} `json:"status"`
}

// checkConditions reports conditions in the status of objects with which a controller refuses the
// object or a part of it: conditions of negativeConditions that are False, and partially invalid
// AuthorizationPolicies. Conditions of all parents of a route are included.
func (r *analysisRun) checkConditions() {
	for _, o := range r.objects {
		types := negativeConditions(o.key.Kind)
		if types == nil {
			continue
		}
		status := decodeAs[withStatus](o).Status
		list := status.Conditions
		for _, p := range status.Parents {
			list = append(list, p.Conditions...)
		}
		for _, c := range list {
			partial := o.key.Kind == api.AuthorizationPolicy && c.Type == "WaypointAccepted" &&
				c.Reason == "PartiallyInvalid"
			if partial || (c.Status == metav1.ConditionFalse && slices.Contains(types, c.Type)) {
				r.report(
					code.NegativeConditionStatus,
					o,
					"status",
					"condition %s is %s: %s: %s",
					c.Type,
					c.Status,
					c.Reason,
					c.Message,
				)
			}
		}
	}
}
