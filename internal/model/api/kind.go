package api

import (
	"slices"
	"strings"
	"sync"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
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

// Kinds returns the table of all kinds that manifests have, in a fixed order. RemoteSecret is not
// in it, because its objects are Secrets. Callers must not modify it.
var Kinds = sync.OnceValue(func() []KindInfo {
	const (
		net = "networking.istio.io"
		sec = "security.istio.io"
		tel = "telemetry.istio.io"
		ext = "extensions.istio.io"

		ingress = "networking.k8s.io"
		mcs     = "multicluster.x-k8s.io"
		gw      = "gateway.networking.k8s.io"
		gwx     = "gateway.networking.x-k8s.io"
		gie     = "inference.networking.k8s.io"
	)
	three := []string{"v1", "v1beta1", "v1alpha3"}
	two := []string{"v1", "v1beta1"}
	core := []string{"v1"}
	list := []KindInfo{
		{
			Kind:     VirtualService,
			Group:    net,
			Plural:   "virtualservices",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.VirtualService) },
		},
		{
			Kind:     DestinationRule,
			Group:    net,
			Plural:   "destinationrules",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.DestinationRule) },
		},
		{
			Kind:     Gateway,
			Group:    net,
			Plural:   "gateways",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.Gateway) },
		},
		{
			Kind:     ServiceEntry,
			Group:    net,
			Plural:   "serviceentries",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.ServiceEntry) },
		},
		{
			Kind:     WorkloadEntry,
			Group:    net,
			Plural:   "workloadentries",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.WorkloadEntry) },
		},
		{
			Kind:     WorkloadGroup,
			Group:    net,
			Plural:   "workloadgroups",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.WorkloadGroup) },
		},
		{
			Kind:     Sidecar,
			Group:    net,
			Plural:   "sidecars",
			Versions: three,
			NewSpec:  func() proto.Message { return new(networking.Sidecar) },
		},
		{
			Kind:     EnvoyFilter,
			Group:    net,
			Plural:   "envoyfilters",
			Versions: []string{"v1alpha3"},
			NewSpec:  func() proto.Message { return new(networking.EnvoyFilter) },
		},
		{
			Kind:     ProxyConfig,
			Group:    net,
			Plural:   "proxyconfigs",
			Versions: []string{"v1beta1"},
			NewSpec:  func() proto.Message { return new(networkingv1beta1.ProxyConfig) },
		},
		{
			Kind:     AuthorizationPolicy,
			Group:    sec,
			Plural:   "authorizationpolicies",
			Versions: two,
			NewSpec:  func() proto.Message { return new(security.AuthorizationPolicy) },
		},
		{
			Kind:     PeerAuthentication,
			Group:    sec,
			Plural:   "peerauthentications",
			Versions: two,
			NewSpec:  func() proto.Message { return new(security.PeerAuthentication) },
		},
		{
			Kind:     RequestAuthentication,
			Group:    sec,
			Plural:   "requestauthentications",
			Versions: two,
			NewSpec:  func() proto.Message { return new(security.RequestAuthentication) },
		},
		{
			Kind:     Telemetry,
			Group:    tel,
			Plural:   "telemetries",
			Versions: []string{"v1alpha1", "v1"},
			NewSpec:  func() proto.Message { return new(telemetry.Telemetry) },
		},
		{
			Kind:     WasmPlugin,
			Group:    ext,
			Plural:   "wasmplugins",
			Versions: []string{"v1alpha1"},
			NewSpec:  func() proto.Message { return new(extensions.WasmPlugin) },
		},
		{
			Kind:     TrafficExtension,
			Group:    ext,
			Plural:   "trafficextensions",
			Versions: []string{"v1alpha1"},
			NewSpec:  func() proto.Message { return new(extensions.TrafficExtension) },
		},

		{
			Kind:      Service,
			Plural:    "services",
			Versions:  core,
			NewObject: func() metav1.Object { return new(corev1.Service) },
		},
		{
			Kind:      EndpointSlice,
			Group:     "discovery.k8s.io",
			Plural:    "endpointslices",
			Versions:  core,
			NewObject: func() metav1.Object { return new(discoveryv1.EndpointSlice) },
		},
		{Kind: Pod, Plural: "pods", Versions: core, NewObject: func() metav1.Object { return new(corev1.Pod) }},
		{
			Kind:          Namespace,
			Plural:        "namespaces",
			Versions:      core,
			ClusterScoped: true,
			NewObject:     func() metav1.Object { return new(corev1.Namespace) },
		},
		{
			Kind:          Node,
			Plural:        "nodes",
			Versions:      core,
			ClusterScoped: true,
			NewObject:     func() metav1.Object { return new(corev1.Node) },
		},
		{
			Kind:      Secret,
			Plural:    "secrets",
			Versions:  core,
			NewObject: func() metav1.Object { return new(corev1.Secret) },
		},
		{
			Kind:      ConfigMap,
			Plural:    "configmaps",
			Versions:  core,
			NewObject: func() metav1.Object { return new(corev1.ConfigMap) },
		},
		{
			Kind:      Ingress,
			Group:     ingress,
			Plural:    "ingresses",
			Versions:  core,
			NewObject: func() metav1.Object { return new(networkingv1.Ingress) },
		},
		{
			Kind:          IngressClass,
			Group:         ingress,
			Plural:        "ingressclasses",
			Versions:      core,
			ClusterScoped: true,
			NewObject:     func() metav1.Object { return new(networkingv1.IngressClass) },
		},

		{
			Kind:      ServiceExport,
			Group:     mcs,
			Plural:    "serviceexports",
			Versions:  []string{"v1beta1", "v1alpha1"},
			NewObject: func() metav1.Object { return new(mcsv1beta1.ServiceExport) },
		},
		{
			Kind:      ServiceImport,
			Group:     mcs,
			Plural:    "serviceimports",
			Versions:  []string{"v1beta1", "v1alpha1"},
			NewObject: func() metav1.Object { return new(mcsv1beta1.ServiceImport) },
		},

		{
			Kind:          GatewayClass,
			Group:         gw,
			Plural:        "gatewayclasses",
			Versions:      two,
			ClusterScoped: true,
			NewObject:     func() metav1.Object { return new(gatewayv1.GatewayClass) },
		},
		{
			Kind:      KubernetesGateway,
			Group:     gw,
			Plural:    "gateways",
			Versions:  two,
			NewObject: func() metav1.Object { return new(gatewayv1.Gateway) },
		},
		{
			Kind:      HTTPRoute,
			Group:     gw,
			Plural:    "httproutes",
			Versions:  two,
			NewObject: func() metav1.Object { return new(gatewayv1.HTTPRoute) },
		},
		{
			Kind:      GRPCRoute,
			Group:     gw,
			Plural:    "grpcroutes",
			Versions:  core,
			NewObject: func() metav1.Object { return new(gatewayv1.GRPCRoute) },
		},
		{
			Kind:      TLSRoute,
			Group:     gw,
			Plural:    "tlsroutes",
			Versions:  []string{"v1", "v1alpha3", "v1alpha2"},
			NewObject: func() metav1.Object { return new(gatewayv1.TLSRoute) },
		},
		{
			Kind:      TCPRoute,
			Group:     gw,
			Plural:    "tcproutes",
			Versions:  []string{"v1", "v1alpha2"},
			NewObject: func() metav1.Object { return new(gatewayv1.TCPRoute) },
		},
		{
			Kind:      UDPRoute,
			Group:     gw,
			Plural:    "udproutes",
			Versions:  []string{"v1", "v1alpha2"},
			NewObject: func() metav1.Object { return new(gatewayv1.UDPRoute) },
		},
		{
			Kind:      ListenerSet,
			Group:     gw,
			Plural:    "listenersets",
			Versions:  core,
			NewObject: func() metav1.Object { return new(gatewayv1.ListenerSet) },
		},
		{
			Kind:      ReferenceGrant,
			Group:     gw,
			Plural:    "referencegrants",
			Versions:  []string{"v1", "v1beta1"},
			NewObject: func() metav1.Object { return new(gatewayv1.ReferenceGrant) },
		},
		{
			Kind:      BackendTLSPolicy,
			Group:     gw,
			Plural:    "backendtlspolicies",
			Versions:  []string{"v1", "v1alpha3"},
			NewObject: func() metav1.Object { return new(gatewayv1.BackendTLSPolicy) },
		},
		{
			Kind:      XBackendTrafficPolicy,
			Group:     gwx,
			Plural:    "xbackendtrafficpolicies",
			Versions:  []string{"v1alpha1"},
			NewObject: func() metav1.Object { return new(gatewayx.XBackendTrafficPolicy) },
		},
		{
			Kind:          XMesh,
			Group:         gwx,
			Plural:        "xmeshes",
			Versions:      []string{"v1alpha1"},
			ClusterScoped: true,
			NewObject:     func() metav1.Object { return new(gatewayx.XMesh) },
		},
		{
			Kind:      XBackend,
			Group:     gwx,
			Plural:    "xbackends",
			Versions:  []string{"v1alpha1"},
			NewObject: func() metav1.Object { return new(gatewayx.XBackend) },
		},
		{
			Kind:      InferencePool,
			Group:     gie,
			Plural:    "inferencepools",
			Versions:  core,
			NewObject: func() metav1.Object { return new(inferencev1.InferencePool) },
		},
	}
	for i := range list {
		list[i].Custom = strings.Contains(list[i].Group, ".istio.io") ||
			slices.Contains([]string{mcs, gw, gwx, gie}, list[i].Group)
	}
	return list
})

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
