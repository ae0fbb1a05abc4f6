package api

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is a kind of object that meshpilot reads, spelled as in a manifest. If two API groups have a
// kind of the same name, the kind that is not Istio's has its group appended, as in kubectl
// ("Gateway.gateway.networking.k8s.io").
type Kind string

// Name returns the kind as a manifest spells it, without the group.
func (k Kind) Name() string {
	name, _, _ := strings.Cut(string(k), ".")
	return name
}

// The kinds of istio.io/api.
const (
	VirtualService        Kind = "VirtualService"
	DestinationRule       Kind = "DestinationRule"
	Gateway               Kind = "Gateway"
	ServiceEntry          Kind = "ServiceEntry"
	WorkloadEntry         Kind = "WorkloadEntry"
	WorkloadGroup         Kind = "WorkloadGroup"
	Sidecar               Kind = "Sidecar"
	EnvoyFilter           Kind = "EnvoyFilter"
	ProxyConfig           Kind = "ProxyConfig"
	AuthorizationPolicy   Kind = "AuthorizationPolicy"
	PeerAuthentication    Kind = "PeerAuthentication"
	RequestAuthentication Kind = "RequestAuthentication"
	Telemetry             Kind = "Telemetry"
	WasmPlugin            Kind = "WasmPlugin"
	TrafficExtension      Kind = "TrafficExtension"
)

// The kinds of Kubernetes that the Kubernetes registry reads.
const (
	Service       Kind = "Service"
	EndpointSlice Kind = "EndpointSlice"
	Pod           Kind = "Pod"
	Namespace     Kind = "Namespace"
	Node          Kind = "Node"
	Secret        Kind = "Secret"
	// RemoteSecret is a Secret of a cluster other than the config cluster. The name in its key is
	// CLUSTER/NAME.
	RemoteSecret Kind = "RemoteSecret"
	ConfigMap    Kind = "ConfigMap"
	Ingress      Kind = "Ingress"
	IngressClass Kind = "IngressClass"
)

// The kinds of the Multi-Cluster Services API.
const (
	ServiceExport Kind = "ServiceExport"
	ServiceImport Kind = "ServiceImport"
)

// The kinds of the Gateway API.
const (
	GatewayClass      Kind = "GatewayClass"
	KubernetesGateway Kind = "Gateway.gateway.networking.k8s.io"
	HTTPRoute         Kind = "HTTPRoute"
	GRPCRoute         Kind = "GRPCRoute"
	TLSRoute          Kind = "TLSRoute"
	TCPRoute          Kind = "TCPRoute"
	UDPRoute          Kind = "UDPRoute"
	ListenerSet       Kind = "ListenerSet"
	ReferenceGrant    Kind = "ReferenceGrant"
	BackendTLSPolicy  Kind = "BackendTLSPolicy"
	// XBackendTrafficPolicy, XMesh and XBackend are experimental and have an API group of their own.
	XBackendTrafficPolicy Kind = "XBackendTrafficPolicy"
	XMesh                 Kind = "XMesh"
	XBackend              Kind = "XBackend"
	// InferencePool is of the Gateway API Inference Extension, with an API group of its own.
	InferencePool Kind = "InferencePool"
)

// KindInfo describes one kind.
type KindInfo struct {
	Kind     Kind
	Group    string   // "" for the Kubernetes core group
	Plural   string   // resource name in a URL: "virtualservices"
	Versions []string // every served version, the storage version first
	// ClusterScoped is set for kinds without a namespace.
	ClusterScoped bool
	// NewSpec returns an empty spec of an Istio kind. It is nil for Kubernetes kinds.
	NewSpec func() proto.Message
	// NewObject returns an empty object of a Kubernetes kind. It is nil for Istio kinds. Its type
	// is that of the newest version, which older versions can be decoded into.
	NewObject func() metav1.Object
	// Custom is set for kinds that a CustomResourceDefinition defines, which may not be installed.
	Custom bool
}

// Istio reports whether the kind is one of istio.io/api, with a protobuf spec.
func (k KindInfo) Istio() bool { return k.NewSpec != nil }

// Lookup returns the entry of the kind with a group and kind name, as a manifest spells them; "" is
// the Kubernetes core group. known reports whether the kind exists, and served whether it is served
// in this version. info is set if known is true.
func Lookup(group, version, kind string) (info KindInfo, known, served bool) {
	for _, k := range Kinds() {
		if k.Group == group && k.Kind.Name() == kind {
			return k, true, slices.Contains(k.Versions, version)
		}
	}
	return KindInfo{}, false, false
}

// Info returns the entry of a kind. The bool is false if the table has none, as for RemoteSecret.
func Info(kind Kind) (KindInfo, bool) {
	for _, k := range Kinds() {
		if k.Kind == kind {
			return k, true
		}
	}
	return KindInfo{}, false
}
