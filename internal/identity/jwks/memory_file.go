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

// File is a Memory of one control plane, where there is no Kubernetes. It is replaced as a whole, and only its owner may write it.
type File struct{ Path string }

var _ Memory = File{}

// String names the file.
func (f File) String() string { return "file " + f.Path }

// Load reads the file, one byte more than there may be at most.
func (f File) Load(context.Context) ([]byte, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxMemory+1))
}

// Change writes a new file in the old one's place.
func (f File) Change(ctx context.Context, change func([]byte) []byte) error {
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
		_ = os.Remove(next.Name()) // the fault is told
		return fmt.Errorf("write %s: %w", f, err)
	}
	return nil
}
