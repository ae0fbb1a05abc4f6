package localmesh

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// The files in the directory of a mesh.
const (
	lockFile   = "lock"
	logFile    = "supervisor.log"
	configDir  = "config"
	stagingDir = "staging"
	caDir      = "ca"
	nodesDir   = "nodes"

	meshConfigFile = "mesh-config.yaml"
)

// DefaultDir returns the directory of the user's mesh: in runtimeDir (XDG_RUNTIME_DIR), or if that
// is empty in the directory of temporary files.
func DefaultDir(runtimeDir string) string {
	if runtimeDir != "" {
		return filepath.Join(runtimeDir, "meshpilot-mesh")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("meshpilot-mesh-%d", os.Geteuid()))
}

// checkOwner returns an error unless path is a directory of the user to which no group and no other
// user can write. A symbolic link is refused.
func checkOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a directory that only this user can write to", path)
	}
	return nil
}

// lockState creates the directory of a mesh, if it does not exist, and locks it. It returns an
// error for a directory that other users own or can write to (checkOwner). It returns errRunning if
// another process has the lock, which is held until the supervisor and all processes of its mesh
// have ended. The caller unlocks it by closing the file.
func lockState(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the mesh: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return nil, fmt.Errorf("the directory of the mesh: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the directory of the mesh: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errRunning
		}
		return nil, fmt.Errorf("locking the directory of the mesh: %w", err)
	}
	return lock, nil
}

// errRunning is the error of lockState if a supervisor uses the directory.
var errRunning = errors.New("a mesh is running already; pilotctl mesh down ends it")

// isLocked reports whether a supervisor uses the directory. It returns false if the lock cannot be
// opened.
func isLocked(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer lock.Close()
	return unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// hasState reports whether a mesh has left files in a directory.
func hasState(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, lockFile))
	return err == nil
}

// removeFiles removes the files of a mesh that has ended, but not the lock and the log. It returns
// the joined errors of all that it could not remove, and nil if there is no directory.
func removeFiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != lockFile && e.Name() != logFile {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
