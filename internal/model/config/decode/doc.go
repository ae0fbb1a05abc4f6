// Package decode reads objects as users write them: YAML or JSON manifests, and the JSON of an API
// server.
//
// The input is bytes. The outputs are validated [config.Config] values, and [config.Problem]
// values. A Problem names the document, line, object and field of a fault. A fault in one document
// never affects another document. The package has no state and performs no I/O.
//
// Decoding is strict, like kubectl's. An unknown field is an Error in an Istio object and a Warning
// in a Kubernetes object.
//
// Start reading with [Manifest] in manifest.go, which decodes a file, and [Object] in object.go,
// which decodes one object. [Spec] in spec.go decodes only the spec of an Istio object and does not
// depend on YAML. It uses the walk in walk.go to find all faults of a spec.
package decode
