// Package ca is the mesh's certificate authority. It signs the X.509-SVIDs of workloads and the
// serving certificate of the control plane.
//
// Inputs: the authority's own certificate and key, which come from a directory or a Secret or are
// generated at the first start, and certificate signing requests (CSRs) of callers that package
// authenticate has identified. Outputs: certificate chains and the roots that verify them.
//
// Invariants: only the public key of a CSR enters a certificate; the identity comes from the
// caller's credentials. No certificate outlives any certificate of its chain. Invalid new material
// returns an error, and the last valid material stays in use.
//
//	directory, Secret, self-signed ─> Material ─> Authority ─┐
//	          CertificateSigningRequests ─> Registration ────┴─ Issuer ─> Service (gRPC)
//	                                        Authority ─> ServingCertificate (the servers' own)
//
// Start with [Authority] in authority.go. material.go parses and validates the authority's files;
// csr.go validates requests. keystore*.go store the files, and reloader.go reloads them and rotates
// a self-signed root (selfsigned.go). service.go is the gRPC service, serving.go the control
// plane's own certificate, and root_publisher.go writes the ConfigMap with the roots into every
// namespace.
package ca
