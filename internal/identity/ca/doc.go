// Package ca is the mesh's certificate authority: it signs what workloads and the control plane itself identify themselves by.
//
// In: the authority's own certificate and key, from a directory, from Secrets or made at the first start; and requests for
// certificates of callers that internal/identity/authenticate vouches for. Out: X.509-SVIDs, and the roots that they lead to.
//
// Law: of a request nothing but its public key comes into a certificate. Who it is for is what the caller has proved, how long
// it is good for is bounded by every certificate above it, and what is wrong with new material leaves the last good one in use.
//
//	directory, Secret, self-signed ─> Material ─> Authority ─┐
//	                    CertificateSigningRequests ─> Registration ┴─ Issuer ─> Service (gRPC), Serving (the ports of the control plane)
//
// Start with [Authority] in authority.go; material.go is what signs and csr.go what is asked of requests. home*.go are where
// material is kept, keeper.go renews a self-signed root (selfsigned.go), service.go is the gRPC service, serving.go the control plane's
// own certificate, and root_publisher.go the ConfigMap with the roots in every namespace.
package ca
