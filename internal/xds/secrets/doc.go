// Package secrets decides which Secrets are read for which xDS stream, and whether a proxy may be
// sent private keys.
//
// Inputs: the connections of proxies and the names to which they subscribe by SDS, and the newest
// snapshot. Outputs: requests to the sources of Secrets of the config cluster and of the proxy's
// own cluster (package credential), which emit the Secrets as events.
//
// Invariants: private keys are sent only to a proxy whose connection proves an identity of its
// namespace, or in plain text where the operator allows it. An account has the permissions that the
// cluster that verified it grants; a proxy cannot choose another.
//
// Start with [Reader.AuthorizeKeys] in reader.go. account.go verifies a proxy's claims.
package secrets
