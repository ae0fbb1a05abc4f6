package render

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Data is the input of a template. Its fields have the names that Istio's templates use.
type Data struct {
	// TypeMeta and DeploymentMeta are the kind and name of the pod's workload.
	TypeMeta       metav1.TypeMeta
	DeploymentMeta types.NamespacedName
	// ObjectMeta and Spec are the pod's, without the result of an earlier injection.
	ObjectMeta metav1.ObjectMeta
	Spec       corev1.PodSpec
	// ProxyConfig is the pod's effective configuration.
	ProxyConfig *meshconfig.ProxyConfig
	MeshConfig  *meshconfig.MeshConfig
	// Values are the values of the installation.
	Values map[string]any
	// Revision is the control plane's; empty for the default one.
	Revision string
	// NativeSidecars is true if the nodes support native sidecars. The pod's annotation may override
	// it, which the template must check.
	NativeSidecars bool
	// ProxyImage and ProxyInitImage are the images of the proxy and of the init container for
	// traffic capture.
	ProxyImage, ProxyInitImage string
	// ProxyUID and ProxyGID are the proxy's user and group ID.
	ProxyUID, ProxyGID int64
	// InboundTrafficPolicyMode is MeshConfig's mode in lower case: passthrough or localhost.
	InboundTrafficPolicyMode string
	// CompliancePolicy is the control plane's COMPLIANCE_POLICY, or empty.
	CompliancePolicy string
}

// isOperatorField reports whether only the mesh operator controls this field of Data: values, mesh
// settings, revision, native sidecars, user IDs and policies. It returns false for the pod, its
// owner, the ProxyConfig and images.
func isOperatorField(field string) bool {
	switch field {
	case "Values",
		"MeshConfig",
		"Revision",
		"NativeSidecars",
		"ProxyUID",
		"ProxyGID",
		"InboundTrafficPolicyMode",
		"CompliancePolicy":
		return true
	}
	return false
}
