// Package identity obtains the workload's certificate from the mesh's certificate authority and
// renews it before it expires.
//
// The inputs are the workload's SPIFFE ID and a function that signs requests. The outputs are the
// secrets "default" and "ROOTCA" in a secret.Store and, optionally, files in a directory.
//
// Invariants: private keys are generated here and passed only to Envoy and that directory. A valid
// certificate is kept until its successor is valid, so an outage of the authority for less than
// half a lifetime has no effect.
//
// Start with [Renewer.Run] in renewer.go. authority.go sends requests, csr.go creates them,
// output.go writes files.
package identity
