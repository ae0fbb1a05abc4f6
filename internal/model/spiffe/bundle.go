package spiffe

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
)

// maxRoots is the maximum number of roots in a bundle.
const maxRoots = 100

// ParseBundle returns the roots in a trust domain's bundle, in the order of the document. That is a
// JSON Web Key Set whose X.509-SVID keys are certificates (SPIFFE Trust Domain and Bundle, section
// 4). Keys of other uses are skipped. It returns an error, without roots, if there is no
// certificate, one is invalid or no CA, or there are more than maxRoots. Errors contain nothing of
// the document.
func ParseBundle(document []byte) ([]*x509.Certificate, error) {
	var bundle struct {
		Keys []struct {
			Use          string   `json:"use"`
			Certificates [][]byte `json:"x5c"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(document, &bundle); err != nil || bundle.Keys == nil {
		return nil, errors.New("the document is not a SPIFFE bundle (a JSON Web Key Set)")
	}
	var list []*x509.Certificate
	for i, k := range bundle.Keys {
		if k.Use != "x509-svid" {
			continue
		}
		if len(k.Certificates) != 1 {
			return nil, fmt.Errorf("key %d has %d certificates (x5c) instead of one", i, len(k.Certificates))
		}
		c, err := x509.ParseCertificate(k.Certificates[0])
		if err != nil {
			return nil, fmt.Errorf("key %d has an invalid certificate (x5c)", i)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("key %d has a certificate (x5c) that is not a CA certificate", i)
		}
		list = append(list, c)
	}
	switch {
	case len(list) == 0:
		return nil, errors.New("the bundle has no key for X.509-SVIDs (use: x509-svid)")
	case len(list) > maxRoots:
		return nil, fmt.Errorf("the bundle has %d roots, more than %d", len(list), maxRoots)
	}
	return list, nil
}
