// Package proxyconfig makes the ProxyConfig that agents ask for over xDS (PCDS): the certificates that the mesh trusts.
//
// In: the mesh-wide settings, with the roots of the mesh's own authority and the trust bundles of others among them. Out: one encoded
// ProxyConfig, the same for every proxy, with nothing but caCertificatesPem in it: certificates, and for which trust domains each is, where
// that is limited (mesh.TrustAnchor). Everything else of a ProxyConfig an agent must know before it can connect at all.
// Law: pure. The order and the spelling of certificates make no difference, so that rotating roots is no news but when a
// root comes or goes.
//
// Start with [Generator.All] in generator.go; anchors.go reads the certificates.
package proxyconfig
