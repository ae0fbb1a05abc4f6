// Package discovery wires the parts of pilot-discovery together.
//
// In: Options, as flags and environment gave them. Out: a running control plane. Law: the only room that knows all others;
// it holds no logic of its own, and [Run] reads as the list of parts.
//
// Start with [Run] in run.go; options.go is what can be set, http.go the ports for people and scrapers.
package discovery
