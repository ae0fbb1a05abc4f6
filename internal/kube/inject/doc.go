// Package inject adds the sidecar to pods: it decides which pods are injected, and computes the
// injected pod.
//
// Inputs: a pod and the Settings: the ConfigMap istio-sidecar-injector (templates and values), the
// mesh configuration, and the ProxyConfig objects. Outputs: the injected pod and a JSON patch. The
// same functions inject the pod templates in manifests offline.
//
// Invariants: all functions are pure. Injection is idempotent: if a pod was injected before,
// templates see it without that result, and their output is merged over it. A user's own
// istio-proxy container overrides the template, field by field. An annotation that annotationChecks
// refuses is an error that names it, and no annotation can change the structure of a template's
// output (package render).
//
// Start with [Settings.Inject] in inject.go, then decide.go (which pods), config.go and values.go
// (the ConfigMap), merge.go (merging template and pod), and the changes beyond templates:
// overrides.go, prometheus.go, probes.go, order.go. manifest.go and workload.go inject manifests.
package inject
