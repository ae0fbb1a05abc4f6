// Package jwks is the source of the keys that tokens of requests are checked with.
//
// In: where the rules of the mesh say that keys are ([Source.Set]), and an HTTP client. Out: batches of events with the keys of each
// place (mesh.KeySet), when they come to be known and when they change.
// What was got is kept in a Memory for the next run, for a day.
//
// Law: what was got once stays in use while it is wanted, however long the place is away after that; what was never got is no key. Nothing
// is fetched that no rule asks for, and what nobody asks for any more is forgotten. What users may read of a failure says of which
// sort it is, and not what some address answered.
//
// The same is done for other documents of keys: trust bundles (Options.Read).
//
// Start with [Source] in source.go; fetch.go gets the keys of one place, fault.go names what goes wrong. Package keyset reads them.
// [Memory] in memory.go has them outlive the process, keeper.go writes it.
// [Hold] in hold.go has rules wait until it is known what keys they have.
package jwks
