package netns

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// runInit is PID 1 of a sandbox: it mounts file systems, starts the program and reports whether
// that succeeded. Until the program ends, it reaps processes, and forwards SIGINT, SIGTERM, SIGQUIT
// and SIGHUP to it. It returns the program's exit status, or 1 if it cannot be started. The kernel
// then kills whatever is left in the PID namespace.
func runInit() int {
	report := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(reportFD)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)

	pid, err := mountAndStart()
	if err != nil {
		fmt.Fprint(report, err)
		return 1
	}
	fmt.Fprint(report, reportReady)
	report.Close()

	program, _ := os.FindProcess(pid) // never fails on Unix
	go forwardSignals(signals, program, nil)
	for {
		var ws syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &ws, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return 1
		case ended == pid:
			return exitStatus(ws)
		}
	}
}

// mountAndStart mounts the file systems of the sandbox, starts this program again in it with the
// same arguments, and returns the PID. The program inherits the three standard files.
func mountAndStart() (pid int, err error) {
	if err := mountFilesystems(); err != nil {
		return 0, err
	}
	pid, err = syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env:   append(withoutStage(os.Environ()), stageVar+"="+stageInside),
		Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, fmt.Errorf("starting %s again in its sandbox: %w", os.Args[0], err)
	}
	return pid, nil
}

// mountFilesystems makes the new namespaces usable: private mounts, a /proc with the sandbox's PIDs
// if permitted, an empty writable /run, lo up, umask 022. It returns an error if one of these, or a
// bridge or veth pair, cannot be made.
func mountFilesystems() error {
	unix.Umask(0o022) // files for processes of other users must be readable
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	// Refused in a user namespace when the host's /proc is partly covered, as in containers. The
	// old one does: it is read for /proc/self, /proc/thread-self and /proc/sys only, and by NSpid
	// where PIDs matter.
	_ = unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err := mountRun(); err != nil {
		return err
	}
	// Shared, so that what Expose mounts there later shows up in the mount namespaces of nodes.
	if err := unix.Mount("", "/run", "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing /run: %w", err)
	}
	if err := linkUp("lo"); err != nil {
		return err
	}
	return probeLinks()
}

// mountRun mounts an empty /run, except for the user's runtime directory (XDG_RUNTIME_DIR), which
// stays visible if it is below /run. A directory that cannot be opened is ignored.
func mountRun() error {
	kept := filepath.Clean(os.Getenv("XDG_RUNTIME_DIR")) //nolint:forbidigo // see the package comment
	fd := -1
	if strings.HasPrefix(kept, "/run/") {
		fd, _ = unix.Open(kept, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // it need not exist
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mounting an empty /run: %w", err)
	}
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	if err := os.MkdirAll(kept, 0o755); err != nil {
		return fmt.Errorf("mounting %s: %w", kept, err)
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), kept, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", kept, err)
	}
	return nil
}

// linkUp sets a link of the present network namespace up.
func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	return nil
}

// probeLinks returns an error if bridges or veth pairs cannot be created. It tries that in a
// network namespace that ends with its thread.
func probeLinks() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, the namespace with the thread
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("making a network namespace: %w", err)
			}
			if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "probe"}}); err != nil {
				return fmt.Errorf("making a bridge: %w", err)
			}
			veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}
			if err := netlink.LinkAdd(veth); err != nil {
				return fmt.Errorf("making a veth pair: %w", err)
			}
			return nil
		}()
	}()
	return <-done
}
