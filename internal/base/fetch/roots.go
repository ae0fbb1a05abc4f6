package fetch

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// RootsWithFile returns a pool of the system's roots and the roots in a PEM file. It returns nil,
// for the system's roots only, if the name is empty or the file does not exist. It returns an error
// if the file is unreadable or contains no certificate.
func RootsWithFile(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || file == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read additional roots: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("additional roots: there is no certificate in %s", file)
	}
	return roots, nil
}
