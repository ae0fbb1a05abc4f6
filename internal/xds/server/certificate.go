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

// CertificateFiles are the paths of the PEM files of the TLS port.
type CertificateFiles struct {
	// Certificate, with its chain, and Key are the server's (--tlsCertFile, --tlsKeyFile).
	Certificate, Key string
	// Roots verify clients' certificates (--caCertFile). If empty, clients are not asked for a
	// certificate.
	Roots string
}

// certificates caches the content of the files. Each handshake checks the files and reads them
// again if they changed, so a rotation needs no restart. If the new files are invalid, the last
// valid ones stay in use: for a moment a certificate may be newer than its key.
type certificates struct {
	files CertificateFiles
	log   *slog.Logger

	mu      sync.Mutex
	seen    [3]os.FileInfo // the files when last read, valid or not
	current pair
}

// pair is a server certificate and the roots for clients' certificates.
type pair struct {
	own   *tls.Certificate
	roots *x509.CertPool // if nil, clients are not asked for a certificate
}

// newCertificates reads the files for the first time. It returns an error if any of them is missing
// or invalid. Files that are not configured are not read.
func newCertificates(files CertificateFiles, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log}
	var err error
	if c.seen, err = c.statFiles(); err != nil {
		return nil, err
	}
	if c.current, err = c.readFiles(); err != nil {
		return nil, err
	}
	return c, nil
}

// currentPair returns the certificates to use now. It reads the files again if they changed. If
// they are missing or invalid, it returns the last valid ones. Reloaded and invalid files are
// logged once per change, missing ones never. It may be called concurrently.
func (c *certificates) currentPair() pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.statFiles()
	if err != nil || sameFiles(now, c.seen) {
		return c.current // a file that is missing during a rotation returns as a different file
	}
	c.seen = now
	next, err := c.readFiles()
	if err != nil {
		c.log.Error("new certificate files are invalid; the previous certificate stays in use", "err", err)
		return c.current
	}
	c.current = next
	c.log.Info("certificate files reloaded", "serial", next.own.Leaf.SerialNumber.Text(16),
		"notAfter", next.own.Leaf.NotAfter)
	return c.current
}

// statFiles returns the state of the certificate, key and roots files, in this order; nil for a
// file that is not configured. Links are followed. It returns an error if one is missing.
func (c *certificates) statFiles() (list [3]os.FileInfo, err error) {
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

// sameFiles reports whether a and b describe the same files with the same sizes and modification
// times, so that none was written, replaced, created or deleted in between. Changed symbolic links,
// also of parent directories, are noticed.
func sameFiles(a, b [3]os.FileInfo) bool {
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

// readFiles reads the certificate with its key, and the roots; the result's roots are nil if none
// are configured. It returns an error if a file is missing or invalid, or the roots file contains
// no certificate.
func (c *certificates) readFiles() (pair, error) {
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

var errNoCertificates = errors.New("contains no certificate")
