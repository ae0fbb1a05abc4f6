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

// Readers are the users who may read the private key that Output writes, as the permissions of its file. Certificates and roots are
// public: their files have certificateMode.
type Readers fs.FileMode

// Owner is the agent's user alone. Group is its group too: applications of other users that share the directory. Everybody is all users
// that have the directory mounted: Prometheus beside the agent, with a user and groups of its own.
const (
	Owner     Readers = 0o600
	Group     Readers = 0o640
	Everybody Readers = 0o644
)

// certificateMode is that of files with certificates.
const certificateMode fs.FileMode = 0o644

// RestrictKey takes permissions to read an existing private key in the directory from users that are not among who: an earlier release let
// all users of the pod read it. It does nothing if there is no key.
func RestrictKey(dir string, who Readers) error {
	file := filepath.Join(dir, keyFile)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restrict the private key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&^fs.FileMode(who) != 0 {
		if err := os.Chmod(file, mode&fs.FileMode(who)); err != nil {
			return fmt.Errorf("restrict the private key: %w", err)
		}
	}
	return nil
}

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
	path := filepath.Join(dir, version)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	// All may enter the directory, whatever the umask is, for the certificates. That its files are of the group of the directory around
	// it (setgid, as Kubernetes has volumes with an fsGroup) stays.
	if err := os.Chmod(path, 0o755|info.Mode()&fs.ModeSetgid); err != nil {
		return err
	}
	files := map[string][]byte{keyFile: key, chainFile: chain, rootsFile: roots}
	for name, content := range files {
		file, mode := filepath.Join(path, name), certificateMode
		if name == keyFile {
			mode = fs.FileMode(who)
		}
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
