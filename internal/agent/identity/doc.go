// Package identity gets the workload's certificate from the mesh's authority, and keeps it from expiring.
//
// In: who the workload is, and a way to have requests signed. Out: the secrets "default" and "ROOTCA" in a store and, where
// that is asked for, in a directory.
// Law: private keys are made here and do not leave, but to Envoy and that directory. A certificate that lives is kept
// until there is another: an authority that is away for less than half of a lifetime is not noticed.
//
// Start with [Renewer.Run] in renewer.go. authority.go asks, request.go is what is asked, output.go writes.
package identity
