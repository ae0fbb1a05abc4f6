package kube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/retired"
)

// trimObject removes in place the fields of an object that no converter reads. This saves memory,
// and changes of the removed fields (heartbeats, status, managed fields) no longer count as changes
// of the object. A converter that needs another field must have it kept here.
func trimObject(object metav1.Object) {
	trimMeta(object)
	switch o := object.(type) {
	case *corev1.Pod:
		trimPod(o)
	case *corev1.Node:
		o.Annotations, o.Spec, o.Status = nil, corev1.NodeSpec{}, corev1.NodeStatus{Addresses: o.Status.Addresses}
	case *corev1.Namespace:
		o.Spec = corev1.NamespaceSpec{}
		o.Status = corev1.NamespaceStatus{Phase: o.Status.Phase}
	case *corev1.Service:
		o.Status.Conditions = nil
	case *discoveryv1.EndpointSlice:
		delete(o.Annotations, corev1.EndpointsLastChangeTriggerTime)
		for i := range o.Endpoints {
			o.Endpoints[i].DeprecatedTopology = nil
		}
	case *corev1.ConfigMap:
		o.BinaryData = nil
	case *networkingv1.Ingress:
		o.Status = networkingv1.IngressStatus{}
	case *mcsv1beta1.ServiceExport:
		o.Status = mcsv1beta1.ServiceExportStatus{}
	case *mcsv1beta1.ServiceImport:
	default:
		trimGateway(object)
	}
}

// trimMeta removes metadata that no converter reads. Resource version and generation are in
// config.Meta; here they would make every version of an object differ. Owner references and UIDs of
// Pods stay, because converters read them.
func trimMeta(o metav1.Object) {
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	o.SetFinalizers(nil)
	o.SetSelfLink("")
	o.SetGenerateName("")
	if _, pod := o.(*corev1.Pod); !pod {
		o.SetOwnerReferences(nil)
		o.SetUID("")
	}
	if t, ok := o.(interface{ SetGroupVersionKind(schema.GroupVersionKind) }); ok {
		t.SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if a := o.GetAnnotations(); a != nil {
		delete(a, corev1.LastAppliedConfigAnnotation)
		if len(a) == 0 {
			o.SetAnnotations(nil)
		}
	}
}

// trimPod keeps the identity, location, ports and readiness of a pod, its controller, and retired
// annotations, which are reported. Ports are kept for pods without an IP too, because they will get
// one.
func trimPod(p *corev1.Pod) {
	maps.DeleteFunc(p.Annotations, func(key, _ string) bool {
		_, reported := retired.AnnotationOf(key)
		return !reported
	})
	if len(p.Annotations) == 0 {
		p.Annotations = nil
	}
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: o.Kind, Name: o.Name, Controller: o.Controller}}
	} else {
		p.OwnerReferences = nil
	}
	spec, status := &p.Spec, &p.Status
	p.Spec = corev1.PodSpec{
		NodeName: spec.NodeName, ServiceAccountName: spec.ServiceAccountName, Hostname: spec.Hostname,
		Subdomain:   spec.Subdomain,
		HostNetwork: spec.HostNetwork, Containers: trimContainers(spec.Containers),
		InitContainers: trimContainers(spec.InitContainers),
	}
	kept := corev1.PodStatus{Phase: status.Phase, PodIP: status.PodIP, PodIPs: status.PodIPs}
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			kept.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	p.Status = kept
}

// trimContainers returns only the names, ports and restart policies of containers, and leaves out
// containers that have neither ports nor a restart policy. The ports are shared.
func trimContainers(list []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range list {
		if len(c.Ports) > 0 || c.RestartPolicy != nil {
			kept = append(kept, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return kept
}

// trimGateway removes the status of an object of the Gateway API, or of its inference extension, in
// place. Other objects, such as ReferenceGrants, are left as they are.
func trimGateway(object metav1.Object) {
	switch o := object.(type) {
	case *gatewayv1.GatewayClass:
		o.Status = gatewayv1.GatewayClassStatus{}
	case *gatewayv1.Gateway:
		o.Status = gatewayv1.GatewayStatus{}
	case *gatewayv1.HTTPRoute:
		o.Status = gatewayv1.HTTPRouteStatus{}
	case *gatewayv1.GRPCRoute:
		o.Status = gatewayv1.GRPCRouteStatus{}
	case *gatewayv1.TLSRoute:
		o.Status = gatewayv1.TLSRouteStatus{}
	case *gatewayv1.TCPRoute:
		o.Status = gatewayv1.TCPRouteStatus{}
	case *gatewayv1.UDPRoute:
		o.Status = gatewayv1.UDPRouteStatus{}
	case *gatewayv1.ListenerSet:
		o.Status = gatewayv1.ListenerSetStatus{}
	case *gatewayv1.BackendTLSPolicy:
		o.Status = gatewayv1.PolicyStatus{}
	case *gatewayx.XBackendTrafficPolicy:
		o.Status = gatewayv1.PolicyStatus{}
	case *gatewayx.XMesh:
		o.Status = gatewayx.MeshStatus{}
	case *gatewayx.XBackend:
		o.Status = gatewayx.BackendStatus{}
	case *inferencev1.InferencePool:
		o.Status = inferencev1.InferencePoolStatus{}
	}
}
