// Package authority hosts the certificate authority of a control plane, and authenticates the
// callers of its TLS ports.
//
// Inputs: [Settings], which users choose; the newest snapshot, for trust domains, roots of signers
// and current workloads; and, with Kubernetes, clients of the clusters. Outputs: the gRPC
// certificate service and the xDS clients' identities, the certificate of the control plane's own
// ports ([Server.Serving]), the mesh's roots as a feed ([Server.RootsFeed]) and as ConfigMaps.
//
// [New] selects one of these, and [Server.Run] operates it:
//
//	signer of workloads     no authority | own key: directory, Secret, self-signed | external signer
//	serving certificate     files | own authority | Kubernetes signer | none
//
// Invariants: no caller is authenticated before [Server.Opened] is closed, which happens after the
// key material was read. An invalid directory stops the control plane at its start; an API server
// that does not respond only delays the authority.
//
// Start with server.go. issuer.go selects the signer, stores.go the place of its key, serving.go
// the serving certificate, callers.go the authentication, and roots.go publishes the roots. The
// authority itself is in package ca, the authentication methods are in package authenticate.
package authority
