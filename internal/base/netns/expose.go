package netns

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const exposed = "/run/exposed"

// Expose shows a file or a directory at a path that every user of the sandbox can reach too, and
// returns that path. A home directory is often closed to others, and so are temporary ones: a
// process that runs as another user could not execute a program there. The mode of the exposed file
// is unchanged. Exposing it again returns the same path. Outside of a sandbox it returns the error
// of Available.
func Expose(path string) (string, error) {
	if err := Available(); err != nil {
		return "", err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("exposing %s: %w", path, err)
	}
	dir := fmt.Sprintf("%s/%x", exposed, sha256.Sum256([]byte(path)))
	target := filepath.Join(dir, filepath.Base(path))
	if err := os.MkdirAll(exposed, 0o755); err != nil {
		return "", fmt.Errorf("exposing %s: %w", path, err)
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, os.ErrExist):
		return target, nil
	case err != nil:
		return "", fmt.Errorf("exposing %s: %w", path, err)
	}
	if err := makeMountPoint(path, target); err != nil {
		return "", fmt.Errorf("exposing %s: %w", path, err)
	}
	if err := unix.Mount(path, target, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("exposing %s: %w", path, err)
	}
	return target, nil
}

// makeMountPoint creates target for a mount of path: an empty directory if path is a directory,
// otherwise an empty file. A missing path and an existing directory target are errors.
func makeMountPoint(path, target string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.Mkdir(target, 0o755)
	}
	return os.WriteFile(target, nil, 0o644)
}
