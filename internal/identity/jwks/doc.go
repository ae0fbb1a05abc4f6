// Package jwks fetches the public keys of token issuers (JSON Web Key Sets) for the authentication
// rules of the mesh.
//
// Inputs: the addresses of keys that the rules name ([Source.SetWanted]) and an HTTP client.
// Outputs: batches of events with the keys of each address (mesh.KeySet) when they are first
// fetched and when they change. Fetched keys are stored in a [KeyCache] for up to a day, for the
// next run.
//
// Invariants: fetched keys stay in use while a rule names their address, even if later fetches
// fail. Only addresses that a rule names are fetched, and keys of unused addresses are removed. The
// error that users can read names the kind of failure, but nothing of the response.
//
// Options.Parse lets the same code fetch other documents, such as trust bundles.
//
// Start with [Source] in source.go. fetcher.go fetches one address repeatedly, fetch.go reads its
// documents, and fault.go classifies errors. Package keyset parses key sets. [KeyCache] in cache.go
// persists keys, cache_writer.go writes it. [KeyBarrier] in key_barrier.go holds rules back until
// their keys are known.
package jwks
