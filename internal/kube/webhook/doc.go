// Package webhook answers the API server: what is to be changed of a new pod (injection), and whether a new object of Istio's is
// valid; and it keeps the webhook configurations by which the API server finds and trusts it.
//
// In: AdmissionReviews over HTTPS, from whoever reaches the port; the ConfigMap istio-sidecar-injector; the roots of the own
// certificate. Out: AdmissionReviews, and patches of webhook configurations.
// Law: whoever asks may be hostile. A request takes bounded memory and time before anything is believed, all requests together
// too, and a wrong one is answered, never crashed on. What is the control plane's own fault is an HTTP error, so that the
// failurePolicy of the webhook decides, and not the control plane. Of webhook configurations only the caBundle is written, and
// the failurePolicy of validation once it was seen to work.
//
// Start with [Server] in server.go and review.go, then injector.go and validator.go. configurations.go keeps the caBundle,
// failclosed.go the failurePolicy; configmap.go and nodes.go watch what injection goes by.
package webhook
