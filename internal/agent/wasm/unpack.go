package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

const (
	// maxModule bounds a module, packed and unpacked. The biggest that are known have some tens of megabytes.
	maxModule = 256 << 20
	// maxEntries bounds the files of an archive that are looked at.
	maxEntries = 1000
	// moduleFile is the one that counts in an archive.
	moduleFile = "plugin.wasm"
)

var errTooBig = errors.New("the module has more bytes than modules may have")

// bounded reads all of it, up to a bound.
func bounded(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, errTooBig
	}
	return b, nil
}

// isModule says whether the bytes are a Wasm module, by how it begins.
func isModule(b []byte) bool { return bytes.HasPrefix(b, []byte("\x00asm")) }

// unpack gives the module in what was fetched: the bytes themselves, or compressed, or the file plugin.wasm of an archive.
func unpack(b []byte, limit int64) ([]byte, error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if b, err = bounded(z, limit); err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
	}
	if !isModule(b) {
		inside, err := fromArchive(bytes.NewReader(b), limit)
		if err != nil {
			return nil, fmt.Errorf("neither a Wasm module nor an archive with one: %w", err)
		}
		b = inside
	}
	if !isModule(b) {
		return nil, errors.New("not a Wasm module")
	}
	return b, nil
}

// fromArchive gives the file plugin.wasm of a tar archive. Nothing of the archive is written anywhere, and links lead nowhere.
func fromArchive(r io.Reader, limit int64) ([]byte, error) {
	archive := tar.NewReader(r)
	for range maxEntries {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no file %s in it", moduleFile)
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg && (header.Name == moduleFile || header.Name == "./"+moduleFile) {
			return bounded(archive, limit)
		}
	}
	return nil, fmt.Errorf("no file %s among the first %d", moduleFile, maxEntries)
}
