package xds

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// readRevocations reads the certificate revocation lists. It returns nil if none are configured. It
// returns an error if the file cannot be read, has none or an invalid one. The signatures are not
// verified here.
func (s security) readRevocations() ([]*x509.RevocationList, error) {
	if s.revoked == "" {
		return nil, nil
	}
	text, err := pemText(s.revoked)
	if err != nil {
		return nil, err
	}
	var lists []*x509.RevocationList
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	if lists == nil {
		return nil, errors.New("there is none in it")
	}
	return lists, nil
}

// checkRevocation returns an error if a certificate of the chain, which begins with the leaf, is in
// a revocation list that its issuer has signed. The last certificate is not checked. It returns nil
// without lists.
func checkRevocation(chain []*x509.Certificate, lists []*x509.RevocationList) error {
	for i := range len(chain) - 1 {
		cert, issuer := chain[i], chain[i+1]
		for _, list := range lists {
			if !bytes.Equal(list.RawIssuer, issuer.RawSubject) || list.CheckSignatureFrom(issuer) != nil {
				continue
			}
			for _, r := range list.RevokedCertificateEntries {
				if r.SerialNumber.Cmp(cert.SerialNumber) == 0 {
					return fmt.Errorf("the certificate of %s with serial number %s is revoked",
						cert.Subject, cert.SerialNumber)
				}
			}
		}
	}
	return nil
}
