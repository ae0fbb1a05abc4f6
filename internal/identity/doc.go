// Package identity groups what establishes and proves identities: the certificate authority (ca),
// the authentication of callers (authenticate), the keys of token issuers (jwks) and the files with
// which a virtual machine joins (workload).
//
// It has no code of its own. SPIFFE identities themselves are in model/spiffe. The agent's side,
// which asks for certificates and serves them to Envoy, is in agent/identity and agent/secret.
package identity
