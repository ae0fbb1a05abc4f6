// Package consul reads services from Consul and converts them to services and endpoints.
//
// A [Source] is the I/O part. It watches the names in Consul's catalog with one blocking query and
// each service's instances with one more, and emits one object of [Kind] per service. A [Converter]
// is the pure part: it replaces these objects with mesh.Services and mesh.Shards.
//
//	Consul ─ queries ─> watch.go ─ answers ─> run.go ─ objects ─> converter.go ─> Services, Shards
//	                                             |
//	                                        state.go: which instances exist
//
// Invariants: an error never removes an instance. An instance is removed only if the same Consul
// servers that listed it answer without it, and the token may still read it (state.go, ADR 40).
// All state of a Source belongs to the goroutine of [Source.Run].
//
// Start reading with [Source.Run] in run.go and [Converter.Convert] in converter.go.
package consul
