// Package clienttls reads the PEM files with which a registry's client verifies servers and
// authenticates itself.
//
// The input is [Files], a part of the settings of each registry. The output is a tls.Config that
// reads the client's certificate again for each connection, and from it an HTTP transport.
package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Files are the TLS settings of a registry's client: PEM files, and a name to verify. All are
// optional. Its methods take the prefix of the registry's flags for their errors: "eureka" for
// --eurekaCAFile.
type Files struct {
	// CAFile contains the roots that the servers' certificates are verified against. If empty, the
	// system's are used (--PREFIXCAFile).
	CAFile string
	// CertFile and KeyFile are the client's certificate, read again for each connection
	// (--PREFIXCertFile, --PREFIXKeyFile).
	CertFile, KeyFile string
	// ServerName is the name that the servers' certificates must contain (default: the host of the
	// address; --PREFIXServerName).
	ServerName string
}

// Validate returns an error, which names the flags with this prefix, if only one of CertFile and
// KeyFile is set. It opens no file.
func (f Files) Validate(prefix string) error {
	if (f.CertFile == "") != (f.KeyFile == "") {
		return fmt.Errorf("--%sCertFile, --%[1]sKeyFile: one needs the other", prefix)
	}
	return nil
}

// ValidateWithFlag returns an error if only one of CertFile and KeyFile is set, or if a field of f
// is set although enabled, the value of the flag --PREFIXTLS, is false.
func (f Files) ValidateWithFlag(prefix string, enabled bool) error {
	var unused error
	if !enabled && f != (Files{}) {
		unused = fmt.Errorf(
			"--%sCAFile, --%[1]sCertFile, --%[1]sKeyFile, --%[1]sServerName: need --%[1]sTLS", prefix)
	}
	return errors.Join(unused, f.Validate(prefix))
}

// TLSConfig returns the TLS settings of a client, with TLS 1.2 as minimum and f.ServerName. If
// CAFile is "", servers are verified against the system's roots. It returns an error, which names
// the flag --PREFIXCAFile, if CAFile cannot be read or has no certificate. The client's
// certificate, if CertFile is set, is read for each connection, which fails if it cannot be read.
func (f Files) TLSConfig(prefix string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CAFile != "" {
		text, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--%sCAFile: %w", prefix, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--%sCAFile %s: has no certificate in PEM", prefix, f.CAFile)
		}
	}
	f.SetClientCertificate(c, prefix)
	return c, nil
}

// SetClientCertificate makes c read the client's certificate and key from the files for each
// connection, which fails if they cannot be read. It does nothing if CertFile is "". Errors name
// the flag --PREFIXCertFile.
func (f Files) SetClientCertificate(c *tls.Config, prefix string) {
	if f.CertFile == "" {
		return
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--%sCertFile: %w", prefix, err)
		}
		return &pair, nil
	}
}
