package gateway

import (
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// FieldManager is the manager of all applied fields. Istio uses the same name: when meshpilot
// replaces Istio, the first apply removes the fields of Istio's manifests that these do not have.
const FieldManager = ControllerName

// ControllerName is the controller of the GatewayClasses whose Gateways are deployed.
// RemoteControllerName is the controller of the class for Gateways that run elsewhere.
const (
	ControllerName       = "istio.io/gateway-controller"
	RemoteControllerName = "istio.io/unmanaged-gateway"
)

// Spec describes the proxies of one Gateway. It is immutable.
type Spec struct {
	// Gateway is the Gateway's name, and Class the name of its GatewayClass.
	Gateway types.NamespacedName
	Class   string
	// ObjectName is the name of the Deployment and the Service.
	ObjectName string
	// Infrastructure is the field of the Gateway's spec, or nil.
	Infrastructure *gatewayv1.GatewayInfrastructure
	// ClassParameters is the ConfigMap that the GatewayClass names as its parameters, or nil.
	ClassParameters *types.NamespacedName
	// Addresses are the static IP addresses of the Gateway.
	Addresses []string
	// Ports are the ports of the listeners. The port for readiness is added to them.
	Ports []corev1.ServicePort
}

// Options configure a Deployer.
type Options struct {
	// Client accesses the cluster of the Gateways. It should have its own rate limit.
	Client *kube.Client
	// Get returns the Spec of a Gateway, or nil if it must not be deployed. List returns
	// all Specs. Both must be safe for concurrent use.
	Get  func(types.NamespacedName) *Spec
	List func() []*Spec
	// Namespace is the root namespace, with the ConfigMaps that have defaults for classes.
	Namespace string
	// Revision is the control plane's revision; "" or "default" is the default revision.
	Revision string
	// CopyMetadata copies the labels and annotations of a Gateway that has none in
	// spec.infrastructure (default true in Istio; PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS).
	CopyMetadata bool
	// Applied, if set, is called after each write of an object of this kind with its outcome:
	// "applied", "deleted" or "failed".
	Applied  func(kind, outcome string)
	Recovery *recovery.Recorder
	Log      *slog.Logger // If nil, nothing is logged.
}
