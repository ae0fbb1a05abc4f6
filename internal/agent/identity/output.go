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

// File names, as Istio's agent writes them.
const (
	keyFile   = "key.pem"
	chainFile = "cert-chain.pem"
	rootsFile = "root-cert.pem"
	// currentLink links to the directory of the current version, as in volumes that the kubelet
	// mounts.
	currentLink = "..data"
)

// KeyMode is the file mode of the private key that WriteFiles writes. Certificates and roots are
// public and have certificateMode.
type KeyMode fs.FileMode

// Who may read the private key: only the agent's user; its group too, for applications that share
// the directory; or all users who can reach the directory, such as Prometheus beside the agent.
const (
	OwnerReads KeyMode = 0o600
	GroupReads KeyMode = 0o640
	AllRead    KeyMode = 0o644
)

// certificateMode is the file mode of certificates and roots.
const certificateMode fs.FileMode = 0o644

// RestrictKey removes the permissions that mode lacks from the private key in dir: an earlier
// release let all users of the pod read it. It adds no permissions. It does nothing if there is no
// key, and returns an error if the file cannot be examined or changed.
func RestrictKey(dir string, mode KeyMode) error {
	file := filepath.Join(dir, keyFile)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restrict private key: %w", err)
	}
	if old := info.Mode().Perm(); old&^fs.FileMode(mode) != 0 {
		if err := os.Chmod(file, old&fs.FileMode(mode)); err != nil {
			return fmt.Errorf("restrict private key: %w", err)
		}
	}
	return nil
}

// WriteFiles writes a certificate, its key with mode, and the roots into dir, which it creates if
// necessary. All files are replaced atomically by switching a symbolic link, as the kubelet does
// for volumes. So a reader does not combine a certificate with another one's key. The previous
// version is removed, or the new one if writing fails before the switch. now must differ between
// calls.
func WriteFiles(dir string, mode KeyMode, now time.Time, chain, key, roots []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	old, _ := os.Readlink(filepath.Join(dir, currentLink)) // fails on the first write
	version := ".." + strconv.FormatInt(now.UnixNano(), 36)
	if err := writeVersion(dir, version, mode, chain, key, roots); err != nil {
		if current, _ := os.Readlink(filepath.Join(dir, currentLink)); current != version {
			_ = os.RemoveAll(filepath.Join(dir, version)) // incomplete
		}
		return fmt.Errorf("write certificates: %w", err)
	}
	if strings.HasPrefix(old, "..") && old != version && !strings.Contains(old, "/") {
		_ = os.RemoveAll(filepath.Join(dir, old)) // a failure only costs disk space
	}
	return nil
}

// writeVersion writes the files into the new directory version below dir, the key with keyMode. It
// then switches the link ..data to that directory, and makes missing or different links of the file
// names point through it. It fails if the directory exists. After an error it leaves its files.
func writeVersion(dir, version string, keyMode KeyMode, chain, key, roots []byte) error {
	path := filepath.Join(dir, version)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	// All users may enter the directory to read the certificates, whatever the umask. setgid is
	// inherited from dir, as Kubernetes sets it on volumes with an fsGroup.
	if err := os.Chmod(path, 0o755|info.Mode()&fs.ModeSetgid); err != nil {
		return err
	}
	files := map[string][]byte{keyFile: key, chainFile: chain, rootsFile: roots}
	for name, content := range files {
		file, mode := filepath.Join(path, name), certificateMode
		if name == keyFile {
			mode = fs.FileMode(keyMode)
		}
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.Chmod(file, mode)); err != nil {
			return err
		}
	}
	if err := replaceSymlink(version, filepath.Join(dir, currentLink)); err != nil {
		return err
	}
	// On the first write, a program that waits for the certificate finds the other files too.
	for _, name := range []string{rootsFile, keyFile, chainFile} {
		target := filepath.Join(currentLink, name)
		if there, _ := os.Readlink(filepath.Join(dir, name)); there == target {
			continue
		}
		if err := replaceSymlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// replaceSymlink atomically replaces a file or symbolic link at path, if there is one, by a
// symbolic link to target. It first creates the link at path + ".new", replacing a file there. It
// returns an error if path is a directory.
func replaceSymlink(target, path string) error {
	next := path + ".new"
	_ = os.Remove(next) // left over by an agent that was killed
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, path)
}
