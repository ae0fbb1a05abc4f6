package mesh

// CertificateFiles is a certificate in files on a proxy's own disk. The zero value is none.
type CertificateFiles struct {
	// Chain and Key are the certificate and its private key, Roots the authorities that the other side's is checked against.
	Chain, Key, Roots string
}

// ClientCertificate gives the certificate that the proxy says it has for its own connections to other proxies; the zero value
// if any of the three files is missing.
func (m NodeMetadata) ClientCertificate() CertificateFiles {
	if m.TLSClientCertChain == "" || m.TLSClientKey == "" || m.TLSClientRootCert == "" {
		return CertificateFiles{}
	}
	return CertificateFiles{Chain: m.TLSClientCertChain, Key: m.TLSClientKey, Roots: m.TLSClientRootCert}
}
