package spiffe

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
)

// maxRoots bounds a bundle.
const maxRoots = 100

// ParseBundle reads the authorities of a trust domain from its bundle: a JSON Web Key Set whose keys for X.509-SVIDs are certificates (SPIFFE
// Trust Domain and Bundle, section 4; X.509-SVID, section 6.1). Keys of other uses are passed over. If one of the certificates
// cannot be used none is: half of a bundle would look like the whole. An error quotes nothing of the document.
func ParseBundle(document []byte) ([]*x509.Certificate, error) {
	var bundle struct {
		Keys []struct {
			Use          string   `json:"use"`
			Certificates [][]byte `json:"x5c"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(document, &bundle); err != nil || bundle.Keys == nil {
		return nil, errors.New("is not a SPIFFE bundle, which is a JSON Web Key Set")
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
			return nil, fmt.Errorf("key %d has no certificate (x5c) that can be read", i)
		}
		if !c.IsCA {
			return nil, fmt.Errorf("key %d has a certificate (x5c) that is not that of an authority", i)
		}
		list = append(list, c)
	}
	switch {
	case len(list) == 0:
		return nil, errors.New("the bundle has no key for X.509-SVIDs (use: x509-svid)")
	case len(list) > maxRoots:
		return nil, fmt.Errorf("the bundle has %d authorities, and %d are too many", len(list), maxRoots+1)
	}
	return list, nil
}
