package laptop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	// limit is the timeout of each command.
	limit = 2 * time.Minute
	// unprivilegedUser owns no files.
	unprivilegedUser = 65534
)

// session is a user with the programs and the sample in a directory.
type session struct {
	t   *testing.T
	dir string
	as  *syscall.Credential
	// server is the address of the control plane, for the commands that query it.
	server string
	// meshConfig is the content of --mesh-config, or "" for none. logged is a part of the access
	// logs with it.
	meshConfig, logged string
}

// newSession builds the programs and copies the sample. as is the user; if nil, that of the test.
func newSession(t *testing.T, as *syscall.Credential) *session {
	t.Helper()
	proxy := envoy.RequireBinary(t)
	dir, err := os.MkdirTemp("", "meshpilot-laptop-")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, dir: dir, as: as}
	t.Cleanup(func() {
		s.do("mesh", "down")
		os.RemoveAll(dir)
	})
	root, err := program.Root()
	if err == nil {
		err = program.Into(t.Context(), s.path("bin"), "cmd/pilotctl", "cmd/pilot-discovery", "cmd/pilot-agent", "cmd/istio-iptables")
	}
	if err == nil {
		err = program.PlaceFile(proxy, s.path("bin/envoy")) // the cache is its owner's
	}
	if err == nil {
		err = os.CopyFS(s.path("samples/laptop"), os.DirFS(filepath.Join(root, "samples/laptop")))
	}
	if err == nil {
		err = os.Mkdir(s.path("run"), 0o700)
	}
	if err == nil {
		err = os.Mkdir(s.path("tmp"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if as != nil && err == nil && !strings.HasPrefix(path, s.path("bin/")) {
			err = os.Lchown(path, int(as.Uid), int(as.Gid))
		}
		return err
	})
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *session) path(name string) string { return filepath.Join(s.dir, name) }

// command returns a command of the user. TMPDIR identifies all processes of the mesh.
func (s *session) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{
		"PATH=" + s.path("bin") + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.path("tmp"),
		"XDG_RUNTIME_DIR=" + s.path("run"), "ENVOY=" + s.path("bin/envoy"), "PILOTCTL_SERVER=" + s.server,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// pilotctl returns a command of pilotctl. mesh up gets a free port of this machine.
func (s *session) pilotctl(args ...string) *exec.Cmd {
	if len(args) > 1 && args[0] == "mesh" && args[1] == "up" {
		args = append(args, "--port", "0")
	}
	return s.command(s.path("bin/pilotctl"), args...)
}

// result is the end of a command.
type result struct {
	code        int
	out, errors string
}

// do runs pilotctl and returns its end.
func (s *session) do(args ...string) result {
	cmd := s.pilotctl(args...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		s.t.Errorf("pilotctl %q: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), messages.String()}
}

// must runs pilotctl and returns its output. The test fails if it fails.
func (s *session) must(args ...string) string {
	s.t.Helper()
	r := s.do(args...)
	if r.code != 0 {
		s.t.Fatalf("pilotctl %q: exit code %d\n%s%s", args, r.code, r.out, r.errors)
	}
	return r.out
}

// refused runs pilotctl, which must fail with an exit code and a message.
func (s *session) refused(code int, message string, args ...string) {
	s.t.Helper()
	if err := s.checkRefused(code, message, args...); err != nil {
		s.t.Error(err)
	}
}

// checkRefused runs pilotctl, and returns an error unless it fails with the exit code and message.
func (s *session) checkRefused(code int, message string, args ...string) error {
	if r := s.do(args...); r.code != code || !strings.Contains(r.errors, message) {
		return fmt.Errorf("pilotctl %q: exit code %d, %q; want %d and %q", args, r.code, r.errors, code, message)
	}
	return nil
}

// up starts the mesh of the sample.
func (s *session) up() {
	s.t.Helper()
	args := []string{"mesh", "up", "-f", "samples/laptop"}
	if s.meshConfig != "" {
		s.write("mesh-config.yaml", func(string) string { return s.meshConfig })
		args = append(args, "--mesh-config", "mesh-config.yaml")
	}
	s.must(args...)
	s.server = s.status().Console
}

func (s *session) status() (status localmesh.Status) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.must("mesh", "status", "-o", "json")), &status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

// workload returns the state of a workload, or nil if it does not exist.
func (s *session) workload(name string) *localmesh.WorkloadStatus {
	s.t.Helper()
	for _, w := range s.status().Workloads {
		if w.Name == name {
			return &w
		}
	}
	return nil
}

// eventually waits until check returns nil.
func (s *session) eventually(what string, check func() error) {
	s.t.Helper()
	serving.Eventually(s.t, limit, what, check)
}

// answers returns the number of each answer of the service to n requests of the client.
func (s *session) answers(n int) map[string]int {
	s.t.Helper()
	script := fmt.Sprintf("for i in $(seq %d); do curl -s --max-time 10 http://greeter/hello || echo failed; done", n)
	counts := map[string]int{}
	for line := range strings.Lines(s.must("mesh", "exec", "client", "--", "sh", "-c", script)) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}

// write replaces a file of the user's mesh.
func (s *session) write(name string, change func(string) string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(change(string(text))), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// processes returns the processes whose environment has the TMPDIR of the session.
func (s *session) processes() (pids []string) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may have ended
		if strings.Contains(string(text), "TMPDIR="+s.path("tmp")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// nothingLeft checks that no process and no file of the mesh is left.
func (s *session) nothingLeft() {
	s.t.Helper()
	if pids := s.processes(); len(pids) > 0 {
		s.t.Errorf("processes %v are left", pids)
	}
	for _, dir := range []string{"run", "tmp"} {
		entries, err := os.ReadDir(s.path(dir))
		if err != nil || len(entries) > 0 {
			s.t.Errorf("files are left in %s: %v, %v", dir, entries, err)
		}
	}
}

// forward forwards a free port of this machine to a port of a workload, and returns its address. The
// returned function ends it.
func (s *session) forward(workload, port string) (address string, stop func()) {
	s.t.Helper()
	cmd := s.pilotctl("mesh", "forward", workload, "0:"+port)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(url), "http://"), func() { s.interrupt(cmd) }
}

// interrupt ends a command of pilotctl by SIGINT.
func (s *session) interrupt(cmd *exec.Cmd) {
	s.t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &ended) || ended.ExitCode() != 128+int(syscall.SIGINT)) {
		s.t.Errorf("pilotctl %q, interrupted: %v", cmd.Args[1:], err)
	}
}
