// Package hostname resolves the DNS names of network gateways. Proxies get their addresses, because
// EDS accepts no names.
//
// The inputs are the names that the newest snapshot requires (Want) and a resolver. The outputs are
// a ResolvedName for each name that has been resolved, again whenever its addresses change, and a
// Problem for each name that cannot be resolved. The last addresses of a name stay in use until a
// lookup returns others. Failures and negative answers change nothing, because a gateway must not
// become unreachable together with its name server.
//
// Start reading with [Source].
package hostname
