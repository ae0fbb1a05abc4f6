// Package rebinding tests that names which change their address between two lookups, or between a
// check and the connection, lead no fetch of the control plane or the agent to a forbidden address.
// All of it runs in a network namespace of its own, which has the forbidden addresses: listeners
// there count connections, and a DNS server answers from a script.
//
//	world_test.go       the addresses, the listeners that count, and the HTTP server that may be reached
//	dns_test.go         the DNS server: names that flip, CNAME chains, mapped and translated IPv6 addresses
//	rebinding_test.go   the fetches: token issuers' keys, OIDC discovery, trust bundles, Wasm modules
//
// Start with rebinding_test.go. /etc/resolv.conf of the namespace names the DNS server, because the
// system's resolver sends the queries.
package rebinding
