package render

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	corev1 "k8s.io/api/core/v1"
)

// otelResourceAttributes gives the value of OTEL_RESOURCE_ATTRIBUTES, by the rules of OpenTelemetry for Kubernetes; empty unless
// a provider of the mesh asks for it (serviceAttributeEnrichment).
func otelResourceAttributes(m *meshconfig.MeshConfig, annotations, labels map[string]string, namespace string, containers []corev1.Container) string {
	if !slices.ContainsFunc(m.GetExtensionProviders(), func(p *meshconfig.MeshConfig_ExtensionProvider) bool {
		return p.GetOpentelemetry().GetServiceAttributeEnrichment() == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS
	}) {
		return ""
	}
	instance, version := "", ""
	if len(containers) > 0 {
		// The name of the pod is not known yet; Kubernetes puts it there.
		instance = namespace + ".$(POD_NAME)." + containers[0].Name
	}
	if len(containers) == 1 {
		version = imageVersion(containers[0].Image)
	}
	var list []string
	for _, a := range []struct {
		name   string
		values []string // the first that is set counts
	}{
		{"service.namespace", []string{namespace}},
		{"service.version", []string{labels["app.kubernetes.io/version"], version}},
		{"service.instance.id", []string{instance}},
	} {
		values := append([]string{annotations["resource.opentelemetry.io/"+a.name]}, a.values...)
		if i := slices.IndexFunc(values, func(v string) bool { return v != "" }); i >= 0 {
			list = append(list, a.name+"="+values[i])
		}
	}
	return strings.Join(list, ",")
}

// imageVersion gives what of the name of an image says its version: tag, digest, or tag@digest.
func imageVersion(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	tag := ""
	if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
		tag = name[colon+1:]
	}
	if tag != "" && digest != "" {
		return tag + "@" + digest
	}
	return tag + digest
}
