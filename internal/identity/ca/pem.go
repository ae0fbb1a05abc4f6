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

// ParseCertificates returns the certificates in concatenated PEM, and ignores text between the
// blocks. It returns an error if there is none, or if a block has another type, is invalid or
// truncated. A partial bundle must not pass as a complete one.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var list []*x509.Certificate
	rest := text
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break // openssl writes comments after the last block
		}
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("unexpected PEM block %q, want a certificate", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate %d: %w", len(list)+1, err)
		}
		list = append(list, c)
	}
	if err := checkBlockCount(text, len(list)); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return list, nil
}

// checkBlockCount returns an error unless text begins as many PEM blocks as were decoded from it.
// pem.Decode skips invalid and truncated blocks.
func checkBlockCount(text []byte, decoded int) error {
	if begun := bytes.Count(text, []byte("-----BEGIN ")); begun != decoded {
		return fmt.Errorf("%d of %d PEM blocks are invalid or truncated", begun-decoded, begun)
	}
	return nil
}

// EncodeCertificates returns the certificates as concatenated PEM.
func EncodeCertificates(list ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range list {
		// writing to a buffer cannot fail
		_ = pem.Encode(&b, &pem.Block{Type: certificateBlock, Bytes: c.Raw})
	}
	return b.Bytes()
}

// parseKey returns the first private key in text: PKCS #8, PKCS #1 (RSA) or SEC 1 (ECDSA) in PEM.
// It returns an error if there is none, or if it is invalid or of another type than RSA, ECDSA and
// Ed25519. Errors contain nothing of the key. Parameters before the key are skipped; any other
// block before it is an error.
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
		case "EC PARAMETERS": // openssl writes them before the key
			continue
		default:
			return nil, fmt.Errorf("unexpected PEM block %q, want a private key", block.Type)
		}
		if err != nil {
			// the parser's message may reveal key material
			return nil, errors.New("the private key is invalid")
		}
		switch key := key.(type) {
		case *rsa.PrivateKey:
			return key, nil
		case *ecdsa.PrivateKey:
			return key, nil
		case ed25519.PrivateKey:
			return key, nil
		default:
			return nil, fmt.Errorf("unsupported private key type %T", key)
		}
	}
}

// EncodeKey returns a private key as PKCS #8 in PEM. It returns an error for a type of key that
// PKCS #8 does not support.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// parseRevocationLists returns concatenated PEM revocation lists (CRLs) without comments and
// whitespace, or nil if text is empty. It returns an error for a block of another type, an invalid
// list, a malformed or truncated block, and text after the last list. Envoy rejects such a file as
// a whole. Text before a block is skipped.
func parseRevocationLists(text []byte) ([]byte, error) {
	var lists []byte
	count := 0
	for rest := bytes.TrimSpace(text); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("invalid PEM")
		}
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("unexpected PEM block %q, want an X509 CRL", block.Type)
		}
		if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
			return nil, err
		}
		lists = append(lists, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		count++
	}
	if err := checkBlockCount(text, count); err != nil {
		return nil, err
	}
	return lists, nil
}
