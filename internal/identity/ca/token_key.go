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

// tokenKeyName is the file of the key that workload tokens are signed with, beside those of the authority.
const tokenKeyName = "token-key.pem"

// OpenTokenKey reads the key of workload tokens from a directory, or makes one. Of several processes that do so at once one
// succeeds, and the others read what it made.
func OpenTokenKey(dir string, random io.Reader) (*ecdsa.PrivateKey, error) {
	key, err := ReadTokenKey(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	made, err := KeyType{}.New(random)
	if err != nil {
		return nil, err
	}
	text, err := EncodeKey(made)
	if err != nil {
		return nil, err
	}
	if err := placeFile(filepath.Join(dir, tokenKeyName), text); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write the key of workload tokens: %w", err)
	}
	return ReadTokenKey(dir)
}

// ReadTokenKey reads the key of workload tokens from a directory: whoever may read it may sign tokens.
func ReadTokenKey(dir string) (*ecdsa.PrivateKey, error) {
	text, err := os.ReadFile(filepath.Join(dir, tokenKeyName))
	if err != nil {
		return nil, fmt.Errorf("read the key of workload tokens: %w", err)
	}
	key, err := parseKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the key of workload tokens: %w", err)
	}
	k, ok := key.(*ecdsa.PrivateKey)
	if !ok || checkPublicKey(&k.PublicKey) != nil || k.Curve.Params().BitSize != 256 {
		return nil, errors.New("read the key of workload tokens: want an ECDSA key on P-256")
	}
	return k, nil
}

// placeFile writes a file for nobody else's eyes where there is none, as a whole or not at all.
func placeFile(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(name), "..new") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(next.Name()) }() // it has another name by then, or is not wanted
	_, err = next.Write(text)
	if err := errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Link(next.Name(), name)
}
