package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
)

const (
	// maxModule bounds the size of a module, compressed and decompressed. The largest known ones
	// have tens of megabytes.
	maxModule = 256 << 20
	// maxEntries bounds the number of archive entries that are searched.
	maxEntries = 1000
	// maxNesting bounds how often data is decompressed or taken from an archive.
	maxNesting = 8
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

// extractModule returns the module in fetched data: the data itself, or what is left after gzip
// compression and tar archives are removed, in any order. It fails if that is no module, if there
// are more than maxNesting layers, or if one of them exceeds limit.
func extractModule(b []byte, limit int64) ([]byte, error) {
	for range maxNesting + 1 {
		if isModule(b) {
			return b, nil
		}
		var err error
		if b, err = unpackOnce(b, limit); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no Wasm module within %d layers of compression and archives", maxNesting)
}

// unpackOnce decompresses data that begins like gzip, and otherwise returns the file of a tar
// archive that extractFromTar selects.
func unpackOnce(b []byte, limit int64) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		inside, err := extractFromTar(bytes.NewReader(b), limit)
		if err != nil {
			return nil, fmt.Errorf("neither a Wasm module nor an archive with one: %w", err)
		}
		return inside, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		b, err = readLimited(z, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	return b, nil
}

// extractFromTar returns the content of the file plugin.wasm in any folder of a tar archive, or
// without one that of the first file. Only regular files among the first maxEntries entries count.
// It fails if there is none or its content exceeds limit. Nothing is written to disk, and links are
// not followed.
func extractFromTar(r io.Reader, limit int64) ([]byte, error) {
	archive := tar.NewReader(r)
	var first []byte
	for range maxEntries {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		named := path.Base(header.Name) == moduleFile
		if header.Typeflag != tar.TypeReg || !named && first != nil {
			continue
		}
		content, err := readLimited(archive, limit)
		if err != nil || named {
			return content, err
		}
		first = content
	}
	if first == nil {
		return nil, fmt.Errorf("no file among the first %d entries of the archive", maxEntries)
	}
	return first, nil
}
