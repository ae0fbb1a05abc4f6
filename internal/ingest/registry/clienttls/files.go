// Package clienttls reads the PEM files with which a registry's client verifies servers and
// authenticates itself.
//
// The input is [Files], which the flags of a registry name. The output is a tls.Config that reads the
// client's certificate again for each connection, and from it an HTTP transport.
package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Files are the paths of PEM files. All are optional; Certificate and Key belong together.
type Files struct {
	// CA has the roots of the servers' certificates. If empty, the system's roots are used.
	CA string
	// Certificate and Key are the client's.
	Certificate, Key string
	// Flags is the beginning of the names of the flags, for errors: "eureka" for --eurekaCAFile and
	// --eurekaCertFile.
	Flags string
}

// Config returns the TLS settings of a client. If CA is "", servers are verified against the
// system's roots. It returns an error if CA cannot be read or has no certificate. The client's
// certificate is read for each connection, which fails if it cannot be read.
func (f Files) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--%sCAFile: %w", f.Flags, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--%sCAFile %s: has no certificate in PEM", f.Flags, f.CA)
		}
	}
	f.SetClientCertificate(c)
	return c, nil
}

// SetClientCertificate makes c read the client's certificate and key from the files for each
// connection, which fails if they cannot be read. It does nothing if Certificate is "".
func (f Files) SetClientCertificate(c *tls.Config) {
	if f.Certificate == "" {
		return
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.Key)
		if err != nil {
			return nil, fmt.Errorf("--%sCertFile: %w", f.Flags, err)
		}
		return &pair, nil
	}
}
