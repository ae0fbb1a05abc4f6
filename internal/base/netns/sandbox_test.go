package netns_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

func TestRunReturnsTheExitStatus(t *testing.T) {
	cmd, _ := helper(t, "exit", nil)
	expectStatus(t, cmd, 7)
}

func TestRunPassesSignalsOn(t *testing.T) {
	cmd, out := helper(t, "signal", nil)
	expectLine(t, out, "ready")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	expectStatus(t, cmd, 9)
}

func TestOrphansAreReaped(t *testing.T) {
	cmd, _ := helper(t, "orphan", nil)
	expectStatus(t, cmd, 0)
}

func TestSandboxSurvivesClosedNodes(t *testing.T) {
	cmd, _ := helper(t, "other thread", nil)
	expectStatus(t, cmd, 0)
}

// Whichever of the three processes of a sandbox is killed, nothing remains: neither processes nor, since only those and
// their descriptors hold them, namespaces.
func TestCrashLeavesNothing(t *testing.T) {
	for generation, name := range []string{"outer program", "PID 1", "program"} {
		t.Run(name, func(t *testing.T) {
			cmd, out := helper(t, "mesh", nil)
			expectLine(t, out, "ready")
			line := []int{cmd.Process.Pid}
			for range 2 {
				children := childrenOf(t, line[len(line)-1])
				if len(children) != 1 {
					t.Fatalf("process %d has children %v, want one", line[len(line)-1], children)
				}
				line = append(line, children[0])
			}
			sandbox := append(line[1:], childrenOf(t, line[2])...)
			if len(sandbox) != 4 { // PID 1, the program, a process in each of two nodes
				t.Fatalf("the sandbox has processes %v, want 4", sandbox)
			}
			if err := syscall.Kill(line[generation], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, pid := range sandbox {
				awaitGone(t, pid)
			}
		})
	}
}

// childrenOf lists the children of all threads of a process.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var all []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		for _, field := range strings.Fields(readFile(t, task)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, child)
		}
	}
	return all
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

const nobody = 65534

// asNobody makes the helper an unprivileged program, one that can reach its own binary.
func asNobody(t *testing.T) func(*exec.Cmd) {
	t.Helper()
	return func(cmd *exec.Cmd) {
		path, err := netns.Expose(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path, cmd.Dir = path, "/"
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
}

func TestWithoutRoot(t *testing.T) {
	netns.Require(t)
	var change func(*exec.Cmd)
	if netns.MapsUID(nobody) { // otherwise the test has no root rights to drop
		change = asNobody(t)
	}
	_, out := helper(t, "mesh", change)
	line, _ := out.ReadString('\n')
	if strings.HasPrefix(line, "refused:") && os.Getenv("CI") != "true" {
		t.Skip(line)
	}
	if line != "ready\n" {
		t.Errorf("without root, the helper said %q, want ready", line)
	}
}

// A process with a changed root may not make user namespaces: a refusal that can be provoked without touching the
// settings of this machine.
func TestRefusalIsOneLine(t *testing.T) {
	netns.Require(t)
	if !netns.MapsUID(nobody) {
		t.Skip("in a user namespace the helper is root there, and not refused: run this as root")
	}
	change := asNobody(t)
	root := t.TempDir()
	if err := unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	// The copy of /run is shared with /run itself: unmounting below it would unmount there too.
	if err := unix.Mount("", root, "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
	cmd, out := helper(t, "mesh", func(cmd *exec.Cmd) {
		change(cmd)
		cmd.SysProcAttr.Chroot = root
	})
	line, _ := out.ReadString('\n')
	rest, _ := out.ReadString(0)
	for _, want := range []string{"refused: ", "network namespaces cannot be created as uid 65534", "operation not permitted"} {
		if !strings.Contains(line, want) {
			t.Errorf("the refusal %q lacks %q", line, want)
		}
	}
	if rest != "" {
		t.Errorf("output after the refusal = %q", rest)
	}
	expectStatus(t, cmd, 3)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
