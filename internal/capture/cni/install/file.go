package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// put writes a file, whole or not at all, and reports whether it was another before.
func put(path string, text []byte, mode os.FileMode) (bool, error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	return true, replace(path, bytes.NewReader(text), mode)
}

// putProgram copies a program, unless the same is there.
func putProgram(from, to string) (bool, error) {
	same, err := alike(from, to)
	if err != nil || same {
		return false, err
	}
	f, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return true, replace(to, f, 0o755)
}

// alike compares two files; one that is not there is like none.
func alike(a, b string) (bool, error) {
	infoA, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	infoB, err := os.Stat(b)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil || infoA.Size() != infoB.Size() || infoB.Mode().Perm()&0o111 == 0 {
		return false, err
	}
	textA, err := os.ReadFile(a)
	if err != nil {
		return false, err
	}
	textB, err := os.ReadFile(b)
	return bytes.Equal(textA, textB), err
}

// replace writes beside the file and renames.
func replace(path string, text io.Reader, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// The name begins with a dot: runtimes and the installer look at names with other endings only.
	f, err := os.CreateTemp(filepath.Dir(path), ".istio-cni-*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// remove deletes a file if it is there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
