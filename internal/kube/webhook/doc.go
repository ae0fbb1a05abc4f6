// Package webhook implements the admission webhooks: it injects sidecars into new pods and
// validates Istio's objects. It also maintains the webhook configurations in the API server.
//
// Inputs: AdmissionReviews over HTTPS, the ConfigMap istio-sidecar-injector, and the roots of the
// server's certificate. Outputs: AdmissionReview responses, and patches of webhook configurations.
//
// Invariants: clients are not trusted. Time and memory are bounded per request and for all requests
// together, and invalid requests get an error response. Internal errors are returned as HTTP
// errors, so that the webhook's failurePolicy decides about the object. Of webhook configurations
// only the caBundle is written, and the failurePolicy of validation once validation was seen to
// work.
//
// Start with [Server] in server.go and review.go, then injector.go and validator.go.
// configurations.go maintains the caBundle, validation_probe.go tests validation before its
// failurePolicy is changed; configmap.go, nodes.go and namespaces.go watch the inputs of injection.
package webhook
