// Package inject puts the sidecar into pods: which pods get one, and what the pod is with it.
//
// In: a pod, and the Settings: the ConfigMap istio-sidecar-injector (templates and values), the mesh configuration, the ProxyConfig
// objects. Out: the pod with its sidecar, and the JSON patch that leads there. Offline the same is done to the pod templates in
// manifests.
// Law: pure, and done twice is done once: of a pod that was injected before, what was put there is taken out first. A user's own
// istio-proxy container wins over the template, field by field. An annotation that is not valid is an error that names it, and
// no value can break out of its place in a template (see the room render).
//
// Start with [Settings.Inject] in inject.go, then decide.go (who), config.go and values.go (the ConfigMap), overlay.go (template
// over pod), and what no template can say: overrides.go, prometheus.go, probes.go, order.go. workload.go is for manifests.
package inject
