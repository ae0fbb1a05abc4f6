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

// Expose bind-mounts a file or a directory at a path that every user of the sandbox can reach, and
// returns that path. A process of another user could not execute a program in a home or temporary
// directory that is closed to others. Modes are unchanged, and exposing a path again returns the
// same result. It returns an error if the path does not exist, and outside of a sandbox.
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
	err = makeMountPoint(path, target)
	if err == nil {
		err = unix.Mount(path, target, "", unix.MS_BIND, "")
	}
	if err != nil {
		_ = os.RemoveAll(dir) // the next call tries again
		return "", fmt.Errorf("exposing %s: %w", path, err)
	}
	return target, nil
}

// makeMountPoint creates target for a mount of path. It is an empty directory if path is a
// directory, otherwise an empty file, in place of an existing file. A missing path, and an existing
// target for a directory, are errors.
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
