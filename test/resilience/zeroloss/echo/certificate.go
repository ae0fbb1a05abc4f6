package echo

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// serverTLS returns the server's TLS configuration, with a self-signed certificate.
func serverTLS() *tls.Config {
	own := pki.SelfSigned(&x509.Certificate{DNSNames: []string{"echo"}})
	return &tls.Config{Certificates: []tls.Certificate{own.TLS()}, NextProtos: []string{"h2", "http/1.1"}}
}
