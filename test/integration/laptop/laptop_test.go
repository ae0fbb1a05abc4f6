package laptop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMainOutside(m)) }

func require(t *testing.T) {
	t.Helper()
	longtest.Test(t)
	netns.RequireSandboxes(t)
}

// TestMesh runs a mesh as root, or as the user of the test.
func TestMesh(t *testing.T) {
	require(t)
	s := newSession(t, nil)
	s.logged = `"GET /hello HTTP/1.1" 200 `
	tell(s)
}

// TestMeshWithoutRoot runs it as a user without rights, in a user namespace, with capture by mark.
func TestMeshWithoutRoot(t *testing.T) {
	require(t)
	if os.Geteuid() != 0 {
		t.Skip("the tests run without root: TestMesh has shown it")
	}
	s := newSession(t, &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser})
	s.meshConfig, s.logged = "accessLogFile: /dev/stdout\naccessLogFormat: \"answered %RESPONSE_CODE% %PROTOCOL%\\n\"\n", "answered 200 HTTP"
	tell(s)
}

// brokenFilter is an EnvoyFilter that the control plane cannot check, and that Envoy rejects.
const brokenFilter = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: broken, namespace: shop}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: broken
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {inline_string: "this is not Lua ("}
`

// TestProblemsDuringStart starts a mesh whose sidecars do not become ready, and asks the control plane
// for the cause while pilotctl mesh up still waits for them.
func TestProblemsDuringStart(t *testing.T) {
	require(t)
	s := newSession(t, nil)
	if err := os.WriteFile(s.path("samples/laptop/filter.yaml"), []byte(brokenFilter), 0o644); err != nil {
		t.Fatal(err)
	}
	up := s.pilotctl("mesh", "up", "-f", "samples/laptop")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(os.Interrupt)
		_ = up.Wait() // it fails, as the workloads
	})
	s.eventually("the cause", func() error {
		r := s.do("mesh", "status", "-o", "json")
		var status localmesh.Status
		if err := json.Unmarshal([]byte(r.out), &status); err != nil {
			return fmt.Errorf("the mesh has no status yet: %w, %s", err, r.errors)
		}
		if status.Console == "" {
			return errors.New("the control plane is not served yet")
		}
		s.server = status.Console
		r = s.do("problems")
		if !strings.Contains(r.out, "EnvoyFilter/shop/broken") || !strings.Contains(r.out, "script load error") {
			return fmt.Errorf("problems: exit code %d, %s%s", r.code, r.out, r.errors)
		}
		return nil
	})
	if w := s.workload("client"); w == nil || w.State == localmesh.StateReady || w.State == localmesh.StateFailed {
		t.Errorf("the state of the client is %+v, want it to be starting", w)
	}
}

// tell checks all documented features of a mesh on this machine.
func tell(s *session) {
	s.refused(1, "the mesh is not running: pilotctl mesh up starts one", "mesh", "status")
	s.up()
	for _, step := range []struct {
		name string
		run  func(*session)
	}{
		{"requests are split and encrypted", checkRequests},
		{"Envoys have statistics", checkStatistics},
		{"programs are run", checkRun},
		{"mistakes are named", checkMistakes},
		{"changes of files are followed", checkChanges},
		{"ports are forwarded", checkForward},
		{"programs are restarted", checkRestart},
		{"nothing is left", checkEnd},
	} {
		parent := s.t
		parent.Run(step.name, func(t *testing.T) {
			s.t = t
			step.run(s)
		})
		if s.t = parent; parent.Failed() {
			return
		}
	}
}

// checkRequests checks the weights of the VirtualService, and that the servers refuse plain text.
func checkRequests(s *session) {
	const total = 100
	counts := s.answers(total)
	v1, v2 := counts["hello from v1"], counts["hello from v2"]
	if v1+v2 != total || v1 < 55 || v2 < 8 {
		s.t.Errorf("of %d requests, answers %v; want three quarters from v1 and one from v2", total, counts)
	}
	address := s.workload("greeter-v1").Address + ":8000/hello"
	if r := s.do("mesh", "exec", "istiod", "--", "curl", "-s", "--max-time", "10", address); r.code == 0 {
		s.t.Errorf("a request in plain text was answered %q, although mutual TLS is required", r.out)
	}
	out := s.must("explain", "client.shop", "http://greeter/hello")
	if !strings.Contains(out, "VirtualService/shop/greeter") {
		s.t.Errorf("explain does not name the VirtualService:\n%s", out)
	}
}

// checkRun runs programs in the foreground: as a new service, with its signals and exit code.
func checkRun(s *session) {
	server := s.pilotctl("run", "-n", "shop", "--service", "clock:8000", "--", "python3", "-m", "http.server", "8000", "--directory", "samples/laptop/v2")
	if err := server.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the service clock", func() error {
		r := s.do("mesh", "exec", "client", "--", "curl", "-s", "--max-time", "10", "http://clock:8000/hello")
		if r.out != "hello from v2\n" {
			return fmt.Errorf("exit code %d, %q, %q", r.code, r.out, r.errors)
		}
		return nil
	})
	if w := s.workload("clock-run-1"); w == nil || w.State != localmesh.StateReady {
		s.t.Errorf("the workload of run is %+v", w)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := server.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 128+int(syscall.SIGTERM) {
		s.t.Errorf("after SIGTERM the run ended with %v, want exit code 143", err)
	}
	if w := s.workload("clock-run-1"); w != nil {
		s.t.Errorf("after its end the workload is %+v", w)
	}
	s.eventually("the end of the service", func() error {
		if r := s.do("mesh", "exec", "client", "--", "curl", "-s", "--max-time", "10", "http://clock:8000/hello"); r.code == 0 {
			return errors.New("it answers " + r.out)
		}
		return nil
	})

	trapping := s.pilotctl("run", "--", "sh", "-c", "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done")
	out, err := trapping.StdoutPipe()
	if err == nil {
		err = trapping.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		s.t.Fatalf("the program wrote %q, %v", line, err)
	}
	if err := trapping.Process.Signal(os.Interrupt); err != nil {
		s.t.Fatal(err)
	}
	rest, _ := io.ReadAll(lines)
	if err := trapping.Wait(); string(rest) != "interrupted\n" || trapping.ProcessState.ExitCode() != 7 {
		s.t.Errorf("after SIGINT the program wrote %q and ended with %v, want exit code 7", rest, err)
	}
}

// checkMistakes makes the mistakes of users that have an error of their own.
func checkMistakes(s *session) {
	s.refused(3, "", "run", "--", "sh", "-c", "exit 3")
	s.refused(127, "no-such-program", "run", "--", "no-such-program")
	s.refused(125, "--name client: the workload client.shop exists already", "run", "-n", "shop", "--name", "client", "--", "true")
	s.refused(125, "service shop/greeter has no port 81; it has 80", "run", "-n", "shop", "--service", "greeter:81", "--", "true")
	s.refused(125, `--service "greeter"`, "run", "--service", "greeter", "--", "true")
	s.refused(125, `no workload "nobody" in the mesh; there are client.shop, greeter-v1.shop, greeter-v2.shop`, "mesh", "exec", "nobody", "--", "true")
	s.refused(1, "a mesh is running already", "mesh", "up", "-f", "samples/laptop")
	s.refused(1, "no-such-envoy", "mesh", "up", "-f", "samples/laptop", "--envoy", "no-such-envoy")
	s.refused(1, "--file", "mesh", "up", "-f", "no-such-file")
	s.refused(1, "pilot-discovery is not in the directory --bin samples", "mesh", "up", "-f", "samples/laptop", "--bin", "samples")
	taken := strings.TrimPrefix(s.server, "127.0.0.1:")
	cmd := s.command(s.path("bin/pilotctl"), "mesh", "up", "-f", "samples/laptop", "--port", taken)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "port "+taken+" of this machine is in use") {
		s.t.Errorf("mesh up at a port in use: %v, %s", err, out)
	}
}

// checkChanges changes a rule, adds a workload, and makes mistakes in Deployments.
func checkChanges(s *session) {
	s.write("samples/laptop/rules.yaml", func(text string) string {
		return strings.NewReplacer("weight: 75", "weight: 0", "weight: 25", "weight: 100").Replace(text)
	})
	s.eventually("all requests to v2", func() error {
		if counts := s.answers(20); counts["hello from v2"] != 20 {
			return fmt.Errorf("answers %v", counts)
		}
		return nil
	})
	s.write("samples/laptop/more.yaml", func(string) string {
		const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s, namespace: shop}\n" +
			"spec: {template: {metadata: {labels: {app: more}}, spec: {containers: [{name: idle, %s}]}}}\n---\n"
		return fmt.Sprintf(deployment, "more", "command: [sleep, infinity]") + fmt.Sprintf(deployment, "broken", "image: nginx") +
			fmt.Sprintf(deployment, "greeter-v1", "command: [sleep, infinity]")
	})
	s.eventually("the new workload and the problems", func() error {
		status := s.status()
		if w := s.workload("more"); w == nil || w.State != localmesh.StateReady {
			return fmt.Errorf("the workload is %+v", w)
		}
		problems := strings.Join(status.Problems, "\n")
		for _, want := range []string{
			"more.yaml: Deployment shop/broken: spec.template.spec.containers[0].command: is required",
			"Deployment shop/greeter-v1: its workload greeter-v1.shop exists already",
		} {
			if !strings.Contains(problems, want) {
				return fmt.Errorf("problems %q lack %q", problems, want)
			}
		}
		return nil
	})
	if err := os.Remove(s.path("samples/laptop/more.yaml")); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the end of the workload", func() error {
		if status := s.status(); len(status.Workloads) != 3 || len(status.Problems) != 0 {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
}

// checkForward reads a page of a workload through a port of this machine.
func checkForward(s *session) {
	address, stop := s.forward("greeter-v1", "8000")
	if page, err := serving.Page("http://" + address + "/hello"); page != "hello from v1\n" {
		s.t.Errorf("the forwarded page is %q, %v", page, err)
	}
	stop()
}

// checkStatistics reads the metrics of requests and the access log of a workload, and compares the
// configuration of its Envoy with the control plane.
func checkStatistics(s *session) {
	load := s.pilotctl("mesh", "exec", "client", "--", "sh", "-c", "while :; do curl -s -o /dev/null --max-time 10 http://greeter/hello; done")
	if err := load.Start(); err != nil {
		s.t.Fatal(err)
	}
	defer s.interrupt(load)
	agent, stop := s.forward("greeter-v1", "15020")
	defer stop()
	s.eventually("the metrics of requests", func() error {
		var list []struct {
			RPS    float64  `json:"requestsPerSecond"`
			Errors float64  `json:"errorsPerSecond"`
			P50    *float64 `json:"p50Milliseconds"`
		}
		out := s.must("metrics", "greeter-v1.shop", "--agent", agent, "--duration", "5s", "-o", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		if m := list[0]; m.RPS < 1 || m.Errors != 0 || m.P50 == nil {
			return errors.New("the metrics are " + out)
		}
		return nil
	})
	log := filepath.Join(s.workload("greeter-v1").Logs, "agent.log")
	if text, err := os.ReadFile(log); !strings.Contains(string(text), s.logged) {
		s.t.Errorf("no line %q in %s, %v", s.logged, log, err)
	}
	admin, stopAdmin := s.forward("greeter-v1", "15000")
	defer stopAdmin()
	if r := s.do("metrics", "greeter-v1.shop", "--agent", admin, "--duration", "5s"); r.code != 1 || !strings.Contains(r.errors, "want the agent") {
		s.t.Errorf("metrics of the page of Envoy itself: exit code %d, %q, %q", r.code, r.out, r.errors)
	}
	out := s.must("ps", "greeter-v1.shop", "--admin", admin)
	for _, kind := range []string{"Cluster ", "Listener ", "RouteConfiguration "} {
		_, rest, _ := strings.Cut(out, kind)
		if line, _, _ := strings.Cut(rest, "\n"); !strings.Contains(line, "SYNCED") || !strings.HasSuffix(strings.TrimSpace(line), "MATCH") {
			s.t.Errorf("ps of greeter-v1: the line of %sis %q", kind, line)
		}
	}
}

// checkRestart kills a program, which is started again, and meanwhile not called.
func checkRestart(s *session) {
	s.must("mesh", "exec", "greeter-v2", "--", "sh", "-c", "pkill -KILL -f '[h]ttp.server 8000' --ns $$ --nslist net")
	s.eventually("the restart", func() error {
		if w := s.workload("greeter-v2"); w.Restarts == 0 || w.State != localmesh.StateReady {
			return fmt.Errorf("the workload is %+v", w)
		}
		return nil
	})
	if w := s.workload("greeter-v1"); w.Restarts != 0 {
		s.t.Errorf("another workload was restarted: %+v", w)
	}
}

// checkEnd ends the mesh with mesh down, and again after its supervisor was killed.
func checkEnd(s *session) {
	if len(s.processes()) < 8 {
		s.t.Fatalf("only processes %v of the mesh are found: the check of its end shows nothing", s.processes())
	}
	s.must("mesh", "down")
	s.nothingLeft()
	s.up()
	if err := syscall.Kill(s.supervisor(), syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	serving.Eventually(s.t, 20*time.Second, "the end of all processes", func() error {
		if pids := s.processes(); len(pids) > 0 {
			return fmt.Errorf("processes %v", pids)
		}
		return nil
	})
	// A process has no environment any more while the kernel closes its socket and its lock.
	s.eventually("the state of a killed mesh", func() error {
		return s.checkRefused(1, "was killed: pilotctl mesh down removes its files", "mesh", "status")
	})
	s.must("mesh", "down")
	s.nothingLeft()
}

// supervisor returns the process of the mesh that is outside of its sandbox: it has the session's
// environment, and its parent has not.
func (s *session) supervisor() int {
	all := strings.Join(s.processes(), " ")
	for _, pid := range strings.Fields(all) {
		text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		parent := strings.Fields(rest)[1]
		if !strings.Contains(" "+all+" ", " "+parent+" ") {
			number, _ := strconv.Atoi(pid) // a number in /proc
			return number
		}
	}
	s.t.Fatal("no process is the supervisor")
	return 0
}

// TestDocument runs the commands of docs/LAPTOP.md in order.
func TestDocument(t *testing.T) {
	require(t)
	s := newSession(t, nil)
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/LAPTOP.md"))
	if err != nil {
		t.Fatal(err)
	}
	port := serving.FreePort(t)
	s.server = fmt.Sprintf("127.0.0.1:%d", port)
	script := []string{"set -ex"}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    $ "); ok {
			command = strings.TrimSpace(command)
			if strings.HasPrefix(command, "pilotctl mesh up") {
				command += fmt.Sprintf(" --port %d", port)
			}
			script = append(script, command)
		}
	}
	if len(script) < 8 {
		t.Fatalf("docs/LAPTOP.md has only the commands %q", script)
	}
	cmd := s.command("bash", "-c", strings.Join(script, "\n"))
	timer := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"hello from v1", "hello from v2", "The mesh has ended."} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands of docs/LAPTOP.md did not print %q:\n%s", want, out)
		}
	}
	s.nothingLeft()
}
