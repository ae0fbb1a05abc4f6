package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"
)

// FuzzUnpack unpacks anything: what comes out is a module, and no longer than may be.
func FuzzUnpack(f *testing.F) {
	packed := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(b) // into memory
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
		if got, err := unpack(b, limit); err == nil && (!isModule(got) || len(got) > limit) {
			t.Errorf("%d bytes come out, a module: %v", len(got), isModule(got))
		}
	})
}
