package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
)

// ParseCertificates reads certificates in PEM, one behind the other. There must be nothing else: half of a bundle would look
// like the whole.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	rest := text
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break // comments behind the last one, as openssl writes them
		}
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("a %s where certificates belong", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read certificate %d: %w", len(list)+1, err)
		}
		list = append(list, c)
	}
	if begun := bytes.Count(text, []byte("-----BEGIN ")); begun != len(list) { // the decoder skips what it cannot read
		return nil, fmt.Errorf("%d of %d blocks of PEM cannot be read: they may be halves", begun-len(list), begun)
	}
	if len(list) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return list, nil
}

// EncodeCertificates writes certificates in PEM, one behind the other.
func EncodeCertificates(list ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range list {
		_ = pem.Encode(&b, &pem.Block{Type: certificateBlock, Bytes: c.Raw}) // a buffer takes everything
	}
	return b.Bytes()
}

// parseKey reads a private key in PEM: PKCS #8, or the older forms of RSA and ECDSA keys.
func parseKey(text []byte) (crypto.Signer, error) {
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("no private key in PEM")
		}
		var key any
		var err error
		switch block.Type {
		case keyBlock:
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "EC PARAMETERS": // openssl writes them in front of the key
			continue
		default:
			return nil, fmt.Errorf("a %s where a private key belongs", block.Type)
		}
		if err != nil {
			return nil, errors.New("the private key cannot be read") // what the parser says may tell of the key
		}
		switch key := key.(type) {
		case *rsa.PrivateKey:
			return key, nil
		case *ecdsa.PrivateKey:
			return key, nil
		case ed25519.PrivateKey:
			return key, nil
		default:
			return nil, fmt.Errorf("a private key of an unknown kind, %T", key)
		}
	}
}

// EncodeKey writes a private key in PEM (PKCS #8).
func EncodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// parseRevoked reads lists of revoked certificates in PEM, and gives them without what is around them; nil for none. Envoy takes a
// whole file or nothing of it, and so do we.
func parseRevoked(text []byte) ([]byte, error) {
	var lists []byte
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("there is something that is not PEM")
		}
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("there is a %s where a list of revoked certificates belongs", block.Type)
		}
		if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
			return nil, err
		}
		lists = append(lists, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
	}
	return lists, nil
}
