package mesh

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// probePath is the path at which the agent answers whether a container of a pod is healthy.
func probePath(container string) string { return "/app-health/" + container + "/readyz" }

// appProbers returns what the injector would write for the pod: the agent forwards probes at its own
// port, which needs no mutual TLS, to /health of each container with a port.
func appProbers(pod *corev1.Pod) (string, error) {
	probers := map[string]any{}
	for _, c := range pod.Spec.Containers {
		if len(c.Ports) > 0 {
			get := map[string]any{"path": "/health", "port": c.Ports[0].ContainerPort}
			probers[probePath(c.Name)] = map[string]any{"httpGet": get}
		}
	}
	text, err := json.Marshal(probers)
	if err != nil {
		return "", fmt.Errorf("rendering the probes of %s: %w", pod.Name, err)
	}
	return string(text), nil
}

// isGateway reports whether a pod runs a proxy of its own: the annotation inject.istio.io/templates
// selects the template of gateways.
func isGateway(pod *corev1.Pod) bool {
	return pod.Annotations["inject.istio.io/templates"] == "gateway"
}

// serviceAccount returns the name of a pod's service account, "default" if it names none.
func serviceAccount(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}
