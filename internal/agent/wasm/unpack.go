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
	// maxModule bounds the size of a module, compressed and decompressed. The largest known ones
	// have tens of megabytes.
	maxModule = 256 << 20
	// maxEntries bounds the number of archive entries that are searched.
	maxEntries = 1000
	// moduleFile is the name of the module in an archive.
	moduleFile = "plugin.wasm"
)

var errTooBig = errors.New("module exceeds the size limit")

// readLimited reads everything from r. It returns errTooBig if that is more than limit bytes.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, errTooBig
	}
	return b, nil
}

// isModule reports whether the bytes begin like a Wasm module.
func isModule(b []byte) bool { return bytes.HasPrefix(b, []byte("\x00asm")) }

// extractModule returns the module in fetched data: the data itself or, if it is a tar archive, its
// file plugin.wasm. The data may be compressed by gzip. It fails if there is none or it exceeds
// limit.
func extractModule(b []byte, limit int64) ([]byte, error) {
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
		if b, err = readLimited(z, limit); err != nil {
			return nil, fmt.Errorf("decompress: %w", err)
		}
	}
	if !isModule(b) {
		inside, err := extractFromTar(bytes.NewReader(b), limit)
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

// extractFromTar returns the content of the regular file plugin.wasm in a tar archive. It fails if
// the first maxEntries entries do not contain it or it exceeds limit. Nothing is written to disk,
// and links are not followed.
func extractFromTar(r io.Reader, limit int64) ([]byte, error) {
	archive := tar.NewReader(r)
	for range maxEntries {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("archive has no file %s", moduleFile)
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag == tar.TypeReg && (header.Name == moduleFile || header.Name == "./"+moduleFile) {
			return readLimited(archive, limit)
		}
	}
	return nil, fmt.Errorf("no file %s among the first %d entries of the archive", moduleFile, maxEntries)
}
