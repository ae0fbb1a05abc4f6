package identity

import (
	"errors"
	"fmt"
	"io/fs"
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

// Readers are who may read what Output writes.
type Readers fs.FileMode

// Owner is the agent's user alone, Group its group too: applications of other users, which share the directory with it. Everybody is
// whoever has the directory mounted: Prometheus beside the agent, with a user and groups of its own.
const (
	Owner     Readers = 0o600
	Group     Readers = 0o640
	Everybody Readers = 0o644
)

// Output writes a certificate, its key and the roots into a directory, as kubelet writes what it mounts: all of it is switched
// over at once, so that nobody reads a certificate and another one's key.
func Output(dir string, who Readers, now time.Time, chain, key, roots []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	old, _ := os.Readlink(filepath.Join(dir, current)) // there is none at first
	version := ".." + strconv.FormatInt(now.UnixNano(), 36)
	if err := writeVersion(dir, version, who, chain, key, roots); err != nil {
		_ = os.RemoveAll(filepath.Join(dir, version)) // it is of no use to anybody
		return fmt.Errorf("write certificates: %w", err)
	}
	if strings.HasPrefix(old, "..") && old != version && !strings.Contains(old, "/") {
		_ = os.RemoveAll(filepath.Join(dir, old)) // if it stays, it is a little room on a disk
	}
	return nil
}

func writeVersion(dir, version string, who Readers, chain, key, roots []byte) error {
	mode := fs.FileMode(who)
	path := filepath.Join(dir, version)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	// Who may read files may enter the directory, whatever the umask is. That its files are of the group of the directory around it
	// (setgid, as Kubernetes has volumes with an fsGroup) stays.
	if err := os.Chmod(path, mode|mode>>2&0o111|info.Mode()&fs.ModeSetgid); err != nil {
		return err
	}
	files := map[string][]byte{keyFile: key, chainFile: chain, rootsFile: roots}
	for name, content := range files {
		file := filepath.Join(path, name)
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.Chmod(file, mode)); err != nil {
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
