package render

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Data is what a template sees. Names are those of Istio's templates.
type Data struct {
	// TypeMeta and DeploymentMeta are the kind and name of the workload that the pod belongs to.
	TypeMeta       metav1.TypeMeta
	DeploymentMeta types.NamespacedName
	// ObjectMeta and Spec are the pod's, without what an earlier injection put there.
	ObjectMeta metav1.ObjectMeta
	Spec       corev1.PodSpec
	// ProxyConfig is in effect for the pod.
	ProxyConfig *meshconfig.ProxyConfig
	MeshConfig  *meshconfig.MeshConfig
	// Values are those of the installation.
	Values map[string]any
	// Revision is the control plane's; empty: the default one.
	Revision string
	// NativeSidecars says that the proxy is to be an init container that keeps running.
	NativeSidecars bool
	// ProxyImage and ProxyInitImage are the images of the proxy and of what sets up the capture of traffic.
	ProxyImage, ProxyInitImage string
	// ProxyUID and ProxyGID are whom the proxy runs as.
	ProxyUID, ProxyGID int64
	// InboundTrafficPolicyMode is MeshConfig's in lower case: passthrough or localhost.
	InboundTrafficPolicyMode string
	// CompliancePolicy is COMPLIANCE_POLICY of the control plane, or empty.
	CompliancePolicy string
}

// operators are the fields of Data that only the operator of the mesh decides on.
func operators(field string) bool {
	switch field {
	case "Values", "MeshConfig", "Revision", "NativeSidecars", "ProxyUID", "ProxyGID", "InboundTrafficPolicyMode", "CompliancePolicy":
		return true
	}
	return false
}
