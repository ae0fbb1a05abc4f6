// Package config defines the objects that users write, and validates them.
//
// The inputs are decoded objects. The outputs are [Config] values with a content hash, and
// [Problem] values for everything in an object that is invalid or has no effect.
//
// The package has no state and performs no I/O. It does not depend on a platform: Kubernetes
// objects are opaque specs. It does not depend on Envoy's API either.
//
// Start reading with [Config] in config.go and [Problem] in problem.go. [Validate] in validate.go
// is the entry point of validation, which has one file per kind. Checks that several kinds share
// are in check_*.go.
package config
