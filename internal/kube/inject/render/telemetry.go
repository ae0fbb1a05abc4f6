package render

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	corev1 "k8s.io/api/core/v1"
)

// otelResourceAttributes returns the value of OTEL_RESOURCE_ATTRIBUTES by OpenTelemetry's rules for
// Kubernetes: namespace, version and instance ID of the service, without empty ones. Annotations
// override all three. The version is that of a label, or else of the image of a single container.
// It returns "" unless a provider of the mesh enables it (serviceAttributeEnrichment).
func otelResourceAttributes(
	m *meshconfig.MeshConfig,
	annotations, labels map[string]string,
	namespace string,
	containers []corev1.Container,
) string {
	if !slices.ContainsFunc(m.GetExtensionProviders(), func(p *meshconfig.MeshConfig_ExtensionProvider) bool {
		enrichment := p.GetOpentelemetry().GetServiceAttributeEnrichment()
		return enrichment == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS
	}) {
		return ""
	}
	instance, version := "", ""
	if len(containers) > 0 {
		// The pod's name is not known yet; Kubernetes expands the variable.
		instance = namespace + ".$(POD_NAME)." + containers[0].Name
	}
	if len(containers) == 1 {
		version = imageVersion(containers[0].Image)
	}
	var list []string
	for _, a := range []struct {
		name   string
		values []string // the first non-empty one is used
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

// imageVersion returns the version in an image name: tag, digest, or tag@digest; "" if it has
// neither.
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
