package kubelet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// InitCommand is the first argument that makes the program that contains this package become a
// container; see [Init].
const InitCommand = "container-init"

// initSpec describes a container's first process.
type initSpec struct {
	Network  bool     `json:"network"` // file descriptor 3 is the Pod's network namespace
	Hostname string   `json:"hostname"`
	Layer    string   `json:"layer"` // directory of this container's writable layer
	Mounts   []mount  `json:"mounts"`
	ReadOnly bool     `json:"readOnly"`
	UID      int      `json:"uid"`
	GID      int      `json:"gid"`
	Groups   []int    `json:"groups"`
	Dir      string   `json:"dir"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
}

// mount shows a file or a directory of this machine in a container.
type mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly"`
}

// initFailure is the exit code of a container whose first process could not be set up; the reason
// is in its log.
const initFailure = 128

// File descriptors that Init is given: one that is closed when the container and its network are
// set up.
const (
	becomingFile = 3
	networkFile  = 4
)

// RunContainer becomes the container that a file describes: this process was started in mount, PID, UTS and
// IPC namespaces of its own. It does not return. The main function calls it when its first argument
// is [InitCommand].
func RunContainer(file string) {
	runtime.LockOSThread()
	err := becomeContainer(file)
	fmt.Fprintf(os.Stderr, "cannot start the container: %v\n", err)
	os.Exit(initFailure)
}

func becomeContainer(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s initSpec
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	unix.CloseOnExec(becomingFile)
	if s.Network {
		if err := unix.Setns(networkFile, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the pod's network: %w", err)
		}
		if err := unix.Close(networkFile); err != nil {
			return err
		}
	}
	if err := s.makeRoot(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := s.becomeUser(); err != nil {
		return err
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("enter the working directory: %w", err)
	}
	return s.executeCommand()
}

// makeRoot builds the root file system: a private copy-on-write layer over this machine's own, and
// the mounts.
func (s *initSpec) makeRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	root := filepath.Join(s.Layer, "root")
	for _, dir := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(s.Layer, dir), 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=/,upperdir=%[1]s/upper,workdir=%[1]s/work", s.Layer)
	if err := unix.Mount("overlay", root, "overlay", 0, layers); err != nil {
		return fmt.Errorf("mount the writable layer: %w", err)
	}
	if err := mountSystem(root, s.Network); err != nil {
		return err
	}
	// The old root stays in reach until all is mounted: sources are looked up there, targets with
	// their symbolic links here.
	const old = "/run/.old"
	if err := os.MkdirAll(root+old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(root, root+old); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if err := m.bindMount(old); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}
	if err := unix.Unmount(old, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := os.Remove(old); err != nil {
		return err
	}
	if s.ReadOnly {
		if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("make the root read-only: %w", err)
		}
	}
	return nil
}

// mountSystem mounts what every container has.
func mountSystem(root string, network bool) error {
	mounts := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"proc", "/proc", "proc", 0, ""},
		{"/dev", "/dev", "", unix.MS_BIND | unix.MS_REC, ""},
		{"tmpfs", "/tmp", "tmpfs", 0, "mode=1777"},
		{"tmpfs", "/run", "tmpfs", 0, "mode=1777"},
	}
	if network { // it shows the interfaces of the namespace it is mounted in
		mounts = append(mounts, mounts[0])
		mounts[len(mounts)-1].source, mounts[len(mounts)-1].target = "sysfs", "/sys"
		mounts[len(mounts)-1].kind, mounts[len(mounts)-1].flags = "sysfs", unix.MS_RDONLY
	}
	for _, m := range mounts {
		if err := unix.Mount(m.source, root+m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

// bindMount shows the source, below the old root, at the target, which is made if it is not there.
func (m mount) bindMount(old string) error {
	source := old + m.Source
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if err := makeTarget(m.Target, info.IsDir()); err != nil {
		return err
	}
	if err := unix.Mount(source, m.Target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !m.ReadOnly {
		return err
	}
	return unix.Mount("", m.Target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

func makeTarget(target string, directory bool) error {
	if directory {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(target, os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *initSpec) becomeUser() error {
	if err := syscall.Setgroups(s.Groups); err != nil {
		return fmt.Errorf("set groups %v: %w", s.Groups, err)
	}
	if err := syscall.Setgid(s.GID); err != nil {
		return fmt.Errorf("set group %d: %w", s.GID, err)
	}
	if err := syscall.Setuid(s.UID); err != nil {
		return fmt.Errorf("set user %d: %w", s.UID, err)
	}
	// Another user is another matter to the kernel, which then forgets this.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// executeCommand looks the command up in the container's own PATH.
func (s *initSpec) executeCommand() error {
	os.Clearenv()
	for _, kv := range s.Env {
		k, v := cutVariable(kv)
		if err := os.Setenv(k, v); err != nil {
			return fmt.Errorf("set variable %q: %w", k, err)
		}
	}
	path, err := exec.LookPath(s.Args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, s.Args, s.Env)
}
