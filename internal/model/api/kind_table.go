package api

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

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
