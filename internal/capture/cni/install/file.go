package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// writeIfChanged atomically writes a file unless it has that content and mode, and reports whether
// it tried to, also with an error.
func writeIfChanged(path string, text []byte, mode os.FileMode) (bool, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm() == mode.Perm() {
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			return false, nil
		}
	}
	return true, replaceFile(path, bytes.NewReader(text), mode)
}

// copyProgram atomically copies a program, with mode 0755, unless the destination has the same
// content and is executable. It reports whether it tried to. It returns an error if from does not
// exist, or a file cannot be read or written.
func copyProgram(from, to string) (bool, error) {
	same, err := sameContent(from, to)
	if err != nil || same {
		return false, err
	}
	f, err := os.Open(from)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return true, replaceFile(to, f, 0o755)
}

// sameContent reports whether an executable b has the same content as a. It returns false if b does
// not exist or is not executable, and an error if a does not exist.
func sameContent(a, b string) (bool, error) {
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

// replaceFile atomically replaces the file at path by one with the content text and the given mode,
// whatever the umask. It creates the directory if it is missing. After an error the old file and no
// temporary file is there.
func replaceFile(path string, text io.Reader, mode os.FileMode) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// The extension makes runtimes and the installer ignore the temporary file.
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
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// removeFile deletes a file. A missing file is not an error.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
