package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// CertificateFiles are where the certificate of the TLS port is, all in PEM.
type CertificateFiles struct {
	// Certificate, with its chain, and Key are the server's. --tlsCertFile, --tlsKeyFile.
	Certificate, Key string
	// Roots are what clients' certificates are verified against; empty: clients are not asked for any. --caCertFile.
	Roots string
}

// certificates are what the files hold. They are looked at with each handshake and read again when they changed, so that a
// rotation needs no restart. If there is anything wrong with the new ones the last good ones stay in use: for a moment a
// certificate may be newer than its key.
type certificates struct {
	files CertificateFiles
	log   *slog.Logger

	mu      sync.Mutex
	seen    [3]os.FileInfo // as they were when last read, good or bad
	current pair
}

// pair is a certificate and the roots that go with it.
type pair struct {
	own   *tls.Certificate
	roots *x509.CertPool // nil: clients are not asked
}

// newCertificates reads the files for the first time, when they must be good.
func newCertificates(files CertificateFiles, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log}
	var err error
	if c.seen, err = c.stat(); err != nil {
		return nil, err
	}
	if c.current, err = c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// get gives the certificates to use now.
func (c *certificates) get() pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.stat()
	if err != nil || same(now, c.seen) {
		return c.current // a file that is gone for a moment comes back as another one
	}
	c.seen = now
	next, err := c.read()
	if err != nil {
		c.log.Error("new certificate files are not used", "err", err)
		return c.current
	}
	c.current = next
	c.log.Info("certificate files read again", "serial", next.own.Leaf.SerialNumber.Text(16), "notAfter", next.own.Leaf.NotAfter)
	return c.current
}

func (c *certificates) stat() (list [3]os.FileInfo, err error) {
	for i, name := range []string{c.files.Certificate, c.files.Key, c.files.Roots} {
		if name == "" {
			continue
		}
		if list[i], err = os.Stat(name); err != nil {
			return list, err
		}
	}
	return list, nil
}

// same says whether nothing was written and nothing put in its place, be it by a symbolic link further up.
func same(a, b [3]os.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil || b[i] == nil:
			if a[i] != b[i] {
				return false
			}
		case !os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime()):
			return false
		}
	}
	return true
}

func (c *certificates) read() (pair, error) {
	own, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate %q with key %q: %w", c.files.Certificate, c.files.Key, err)
	}
	if c.files.Roots == "" {
		return pair{own: &own}, nil
	}
	pem, err := os.ReadFile(c.files.Roots)
	if err != nil {
		return pair{}, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return pair{}, fmt.Errorf("roots %q: %w", c.files.Roots, errNoCertificates)
	}
	return pair{&own, roots}, nil
}

var errNoCertificates = errors.New("there is no certificate in it")
