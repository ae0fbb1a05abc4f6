// Package hostname is the source of what DNS names stand for: those of the gateways of networks, which proxies are told by address,
// because EDS takes no names.
//
// In: the names that the newest snapshot wants (Want), and a resolver. Out: a ResolvedName for each that was ever resolved, and again
// when its addresses differ; a Problem for each that cannot be resolved.
// Law: what a name stood for holds until it stands for something else. No answer, and the answer that there is no such name, change
// nothing: the addresses of a gateway that is there must not go with its name server.
//
// Start with [Source].
package hostname
