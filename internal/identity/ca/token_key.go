package ca

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tokenKeyName is the file with the signing key of workload tokens, next to the authority's files.
const tokenKeyName = "token-key.pem"

// LoadOrCreateTokenKey returns the signing key of workload tokens stored in dir, and generates one
// (ECDSA on P-256) if there is none. An existing key that ReadTokenKey refuses is an error and
// stays. If several processes do so concurrently, one creates the file and all return its key.
func LoadOrCreateTokenKey(dir string, random io.Reader) (*ecdsa.PrivateKey, error) {
	key, err := ReadTokenKey(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := KeyType{}.GenerateKey(random)
	if err != nil {
		return nil, err
	}
	text, err := EncodeKey(made)
	if err != nil {
		return nil, err
	}
	if err := createFile(filepath.Join(dir, tokenKeyName), text); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write the signing key of workload tokens: %w", err)
	}
	return ReadTokenKey(dir)
}

// ReadTokenKey returns the signing key of workload tokens stored in dir. The error wraps
// fs.ErrNotExist if there is none; a key that is not ECDSA on P-256 is refused.
func ReadTokenKey(dir string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(dir, tokenKeyName))
	if err != nil {
		return nil, fmt.Errorf("read the signing key of workload tokens: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the signing key of workload tokens: %w", err)
	}
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok || checkPublicKey(&k.PublicKey) != nil || k.Curve.Params().BitSize != 256 {
		return nil, errors.New("read the signing key of workload tokens: want an ECDSA key on P-256")
	}
	return k, nil
}

// createFile creates a file with mode 0600 atomically, and its directory if needed. The error wraps
// fs.ErrExist if the file exists. A link makes the file appear as a whole.
func createFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), "..new") // mode 0600
	if err != nil {
		return err
	}
	// best effort: a leftover temporary file is harmless
	defer func() { _ = os.Remove(next.Name()) }()
	_, err = next.Write(text)
	if err := errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Link(next.Name(), name)
}
