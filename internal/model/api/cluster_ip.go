package api

import corev1 "k8s.io/api/core/v1"

// NeedsClusterIP reports whether an API server allocates a cluster IP for a Service with this spec:
// it has none, and is neither headless nor of the type ExternalName.
func NeedsClusterIP(spec *corev1.ServiceSpec) bool {
	return spec.Type != corev1.ServiceTypeExternalName && spec.ClusterIP == "" && len(spec.ClusterIPs) == 0
}
