package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// pilotAgent runs a command line to its end and returns the exit status and both outputs.
func pilotAgent(t *testing.T, env []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append([]string{agentVar + "=1", "PATH=" + os.Getenv("PATH")}, env...)
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	good := []string{"POD_NAME=a", "POD_NAMESPACE=ns", `PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE"}`}
	tests := []struct {
		name, args     string
		env            []string
		status         int
		stdout, stderr string // parts
	}{
		{"help", "--help", nil, 0, "istio-iptables", ""},
		{"help of proxy", "proxy --help", nil, 0, "proxy [sidecar|router]", ""},
		{"version", "version --short", nil, 0, obs.Version + "\n", ""},
		{"version for programs", "version -o json", nil, 0, `"clientVersion"`, ""},
		{"a bad role", "proxy ztunnel", good, 1, "", "pilot-agent: proxy \"ztunnel\": want sidecar or router\n"},
		{
			"a bad log level",
			"proxy --log_output_level=loud",
			good,
			1,
			"",
			"pilot-agent: log level \"loud\": unknown level \"loud\" (want none, error, warn, info or debug)\n",
		},
		{"no environment", "proxy sidecar", nil, 1, "", "pilot-agent: environment variable POD_NAME: must be set"},
		{"an unknown command", "prox", nil, 1, "", "pilot-agent: unknown command \"prox\" for \"pilot-agent\"\n"},
		{
			"an unknown flag",
			"version --short --bogus value",
			nil,
			0,
			obs.Version + "\n",
			"warning: unknown flag --bogus is ignored\n",
		},
		{"an unknown flag before the command", "--bogus version", nil, 1, "", "pilot-agent: unknown flag: --bogus\n"},
		{"no Envoy", "request GET /stats --debug-port 1", nil, 1, "", "connection refused"},
		{
			"no agent to wait for",
			"wait --timeoutSeconds 0 --url http://127.0.0.1:1/",
			nil,
			1,
			"",
			"pilot-agent: the proxy is not ready after 0 s: ",
		},
		{"completion", "completion bash", nil, 0, "__start_pilot-agent", ""},
		{"completion of roles", "__complete proxy r", nil, 0, "router\n", ""},
		{"capture with a bad value", "istio-iptables --dry-run -m MAGIC", nil, 1, "", "pilot-agent: "},
		{"capture undone, dry", "istio-clean-iptables --dry-run", nil, 0, "", "not removing rules"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := pilotAgent(t, test.env, strings.Fields(test.args)...)
			if status != test.status || !strings.Contains(stdout, test.stdout) ||
				!strings.Contains(stderr, test.stderr) {
				t.Errorf("pilot-agent %s\nstatus %d, want %d\noutput %q, want %q\nerrors %q, want %q", test.args,
					status, test.status, stdout, test.stdout, stderr, test.stderr)
			}
		})
	}
}

// TestRequestAndWait queries a running agent and Envoy, as scripts and hooks in the container do.
func TestRequestAndWait(t *testing.T) {
	t.Parallel()
	address := localControlPlane(t)
	a := startAgent(t, settings{config: map[string]any{"discoveryAddress": address}})
	env := []string{fmt.Sprintf(`PROXY_CONFIG={"proxyAdminPort":%d}`, a.admin)}
	for _, test := range []struct{ args, want string }{
		{fmt.Sprintf("wait --periodMillis 10 --url http://localhost:%d/healthz/ready", a.ready), "the proxy is ready\n"},
		{"request GET ready", "LIVE\n"},
		{"request GET /server_info", `"state": "LIVE"`},
		{fmt.Sprintf("request --debug-port=%d POST drain", a.status), "OK"},
	} {
		if status, out, errs := pilotAgent(
			t,
			env,
			strings.Fields(test.args)...); status != 0 ||
			!strings.Contains(out, test.want) {
			t.Errorf("pilot-agent %s: status %d, output %q, errors %q; want %q", test.args, status,
				out, errs, test.want)
		}
	}
	a.awaitLog(t, "request to /drain")
	// The admin interface can end Envoy too: the agent exits with Envoy's own status.
	if status, _, errs := pilotAgent(t, env, "request", "POST", "quitquitquit"); status != 0 {
		t.Errorf("status %d, errors %q", status, errs)
	}
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("the agent's status %d, want 0", status)
	}
	a.awaitLog(t, "error\tenvoy exited with status 0\n")
}

// TestCapture tests that the agent includes istio-iptables, with the flags of the injected init
// container.
func TestCapture(t *testing.T) {
	t.Parallel()
	netns.Require(t)
	pod := node(t, newNetwork(t), "pod", "10.66.1.1") // has an address, which determines the IP versions
	args := []string{
		"istio-iptables",
		"--dry-run",
		"--log_output_level=error",
		"--bogus",
		"value",
		"-p",
		"15001",
		"-z",
		"15006",
		"-u",
		"1337",
		"-m",
		"REDIRECT",
		"-i",
		"*",
		"-x",
		"",
		"-b",
		"*",
		"-d",
		"15090,15021,15020",
	}
	process, err := pod.Start(netns.Command{Path: os.Args[0], Args: args, Env: []string{agentVar + "=1"}})
	if err != nil {
		t.Fatal(err)
	}
	status, out := process.Status(), process.Tail(1000)
	if status != 0 {
		t.Errorf("status %d", status)
	}
	// Package internal/capture/iptables tests the rules themselves.
	for _, want := range []string{"warning: unknown flag --bogus is ignored\n", "ISTIO_OUTPUT", "15001", "15006", "1337", "15090", "15021", "15020"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "effective configuration") {
		t.Error("it logs more than --log_output_level lets it")
	}
}
