package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzUnpack tests that extracted data is a module within the size limit.
func FuzzUnpack(f *testing.F) {
	packed := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b) // to memory
		_ = w.Close()
		return out.Bytes()
	}
	var archived bytes.Buffer
	w := tar.NewWriter(&archived)
	_ = w.WriteHeader(&tar.Header{Name: "./plugin.wasm", Typeflag: tar.TypeReg, Size: 8, Mode: 0o644})
	_, _ = w.Write(module())
	_ = w.Close()
	for _, b := range [][]byte{module(), packed(module()), archived.Bytes(), packed(archived.Bytes()), packed(packed(module())), packed(make([]byte, 70_000)), {0x1f, 0x8b}, nil} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 64 << 10
		if got, err := extractModule(b, limit); err == nil && (!isModule(got) || len(got) > limit) {
			t.Errorf("unpacked %d bytes, a module: %v", len(got), isModule(got))
		}
	})
}

// FuzzKeychain tests that a pull secret is parsed or rejected, and that the error does not quote
// it.
func FuzzKeychain(f *testing.F) {
	for _, s := range []string{
		`{"auths":{"registry.example.com":{"auth":"dXNlcjpwYXNzd29yZA=="}}}`, `{"auths":{"https://r/v1/":{"username":"u","password":"p"}}}`, `{"auths":null}`, `{`, ``,
		`{"auths":{"r":{"auth":"SECRETSECRET"}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, secret []byte) {
		if len(secret) > 0 && !json.Valid(secret) {
			if _, err := parsePullSecret(secret); err == nil || len(secret) > 12 && strings.Contains(err.Error(), string(secret)) {
				t.Errorf("%q: %v", secret, err)
			}
			return
		}
		if k, err := parsePullSecret(secret); (k == nil) != (err != nil) {
			t.Errorf("%q: %v, %v", secret, k, err)
		}
	})
}
