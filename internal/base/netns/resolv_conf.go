package netns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const resolvConf = "/etc/resolv.conf"

// resolvConfPath returns the path of the node's /etc/resolv.conf, in the node's directory.
func (n *Node) resolvConfPath() string { return filepath.Join(n.dir, "resolv.conf") }

// mountResolvConf mounts a file over /etc/resolv.conf in the mount namespace of the calling thread.
// Where that is a link to a missing file below /run, which is empty in a sandbox, it creates the
// file first. A link to another missing file is an error.
func mountResolvConf(path string) error {
	if _, err := os.Stat(resolvConf); errors.Is(err, fs.ErrNotExist) {
		target, err := os.Readlink(resolvConf)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(resolvConf), target)
		}
		if !strings.HasPrefix(target, "/run/") {
			return errors.New("it is a link to " + target + ", which does not exist")
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, nil, 0o644); err != nil {
			return err
		}
	}
	return unix.Mount(path, resolvConf, "", unix.MS_BIND, "")
}
