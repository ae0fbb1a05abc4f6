// Package proxyconfig generates the ProxyConfig that agents subscribe to over xDS (PCDS). It
// contains the certificates that the mesh trusts.
//
// The inputs are the mesh-wide settings, including the roots of the mesh's own authority and the
// trust bundles of others. The output is one encoded ProxyConfig, the same for every proxy. Only
// caCertificatesPem is set: certificates, with the trust domains to which each is limited, if any
// (mesh.TrustAnchor). An agent needs all other fields of a ProxyConfig before it can connect at
// all.
//
// The output does not depend on the order or formatting of certificates, so a rotation of roots
// changes it only when a root is added or removed.
//
// Start with [Generator.All] in generator.go; anchors.go parses the certificates.
package proxyconfig
