package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The names are those that Istio's agent writes.
const (
	keyFile   = "key.pem"
	chainFile = "cert-chain.pem"
	rootsFile = "root-cert.pem"
	// current is the link to the directory with the files that belong together.
	current = "..data"
)

// Output writes a certificate, its key and the roots into a directory, as kubelet writes what it mounts: all of it is switched
// over at once, so that nobody reads a certificate and another one's key. Files are for their owner only.
func Output(dir string, now time.Time, chain, key, roots []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	old, _ := os.Readlink(filepath.Join(dir, current)) // there is none at first
	version := ".." + strconv.FormatInt(now.UnixNano(), 36)
	if err := writeVersion(dir, version, chain, key, roots); err != nil {
		_ = os.RemoveAll(filepath.Join(dir, version)) // it is of no use to anybody
		return fmt.Errorf("write certificates: %w", err)
	}
	if strings.HasPrefix(old, "..") && old != version && !strings.Contains(old, "/") {
		_ = os.RemoveAll(filepath.Join(dir, old)) // if it stays, it is a little room on a disk
	}
	return nil
}

func writeVersion(dir, version string, chain, key, roots []byte) error {
	if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
		return err
	}
	files := map[string][]byte{keyFile: key, chainFile: chain, rootsFile: roots}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, version, name), content, 0o600); err != nil {
			return err
		}
	}
	if err := relink(version, filepath.Join(dir, current)); err != nil {
		return err
	}
	for name := range files {
		target := filepath.Join(current, name)
		if there, _ := os.Readlink(filepath.Join(dir, name)); there == target {
			continue
		}
		if err := relink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// relink makes a symbolic link in place of whatever is at the path.
func relink(target, path string) error {
	next := path + ".new"
	_ = os.Remove(next) // of an agent that was ended in between
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, path)
}
