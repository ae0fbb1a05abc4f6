// Package decode reads objects as users write them: YAML or JSON manifests, and the JSON that an API server keeps.
//
// In: bytes. Out: validated [config.Config] values, and [config.Problem] values that name the document, line, object
// and field of everything that is wrong. One bad document never hurts another.
// Law: pure. Reading is strict, as kubectl's is: a field that the API does not have is an Error of an Istio object and a
// Warning of a Kubernetes object.
//
// Start with [Manifest] in manifest.go (a file) and [Object] in object.go (one object). [Spec] in spec.go reads only the
// spec of an Istio object and knows nothing of YAML; the walk over it, which finds the faults, is in walk.go.
package decode
