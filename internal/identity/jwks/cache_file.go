package jwks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// FileCache is a KeyCache in a file, for one control plane without Kubernetes. The file is replaced
// atomically and has mode 0600.
type FileCache struct{ Path string }

var _ KeyCache = FileCache{}

// CacheInDir returns the cache in the file NAME.json of a directory, or nil if dir is "".
func CacheInDir(dir, name string) KeyCache {
	if dir == "" {
		return nil
	}
	return FileCache{Path: filepath.Join(dir, name+".json")}
}

// String returns the path for logs.
func (f FileCache) String() string { return "file " + f.Path }

// Load returns the content of the file, or nil if it does not exist. It reads at most
// maxCacheBytes+1 bytes.
func (f FileCache) Load(context.Context) ([]byte, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxCacheBytes+1))
}

// Update replaces the content of the file, atomically, by the result of change on it, and writes
// nothing if both are equal. A missing file has no content and is created. It returns an error if
// the file cannot be read or written.
func (f FileCache) Update(ctx context.Context, change func([]byte) []byte) error {
	old, err := f.Load(ctx)
	if err != nil {
		return err
	}
	text := change(old)
	if bytes.Equal(text, old) {
		return nil
	}
	next, err := os.CreateTemp(filepath.Dir(f.Path), filepath.Base(f.Path)+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), f.Path)
	}
	if err != nil {
		_ = os.Remove(next.Name()) // the first error is returned
		return fmt.Errorf("write %s: %w", f, err)
	}
	return nil
}
