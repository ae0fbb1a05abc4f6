package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// execute runs a command line. The proxy command does not run the agent but prints "run ID".
func execute(t *testing.T, environ []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	extra := func(logs *obs.LogOptions) []*cobra.Command {
		return []*cobra.Command{{Use: "extra", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			c.Println("extra", logs.Levels)
			return nil
		}}}
	}
	o := Options{Environ: environ, Args: args, Stdout: &out, Stderr: &errs, ExtraCommands: extra}
	root := NewWithRunner(o, func(_ context.Context, o agent.Options) error {
		_, err := fmt.Fprintln(o.Stdout, "run", o.Node.ID)
		return err
	})
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

// good returns the environment of a sidecar.
func good() []string {
	return []string{"POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IPS=10.0.0.1", `PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE"}`}
}

func TestRoleAndUnknownFlags(t *testing.T) {
	t.Chdir(t.TempDir()) // the default paths of files are relative
	const sidecar, router = "run sidecar~10.0.0.1~a.ns~", "run router~10.0.0.1~a.ns~"
	tests := []struct {
		args    string
		want    string // in the output; "error: " and a part of the error
		warning string
	}{
		{"proxy", sidecar, ""},
		{"proxy sidecar", sidecar, ""},
		{"proxy router", router, ""},
		{"proxy router --concurrency 2", router, ""},
		{"proxy --concurrency 2 router", router, ""},
		{"proxy sidecar --serviceCluster router", sidecar, ""},
		{"proxy sidecar --bogus value", sidecar, "warning: unknown flag --bogus is ignored\n"},
		{"proxy sidecar --bogus=value", sidecar, "warning: unknown flag --bogus is ignored\n"},
		{"proxy sidecar --bogus", sidecar, "warning: unknown flag --bogus is ignored\n"},
		{"proxy --bogus value router", router, "warning: unknown flag --bogus is ignored\n"},
		{"proxy --bogus=value router", router, "warning: unknown flag --bogus is ignored\n"},
		{"proxy --bogus router", router, "warning: unknown flag --bogus is ignored\n"},
		{"proxy --bogus --other router --concurrency 1", router, "warning: unknown flag --bogus is ignored\nwarning: unknown flag --other is ignored\n"},
		{"proxy -Z value sidecar", sidecar, "warning: unknown flag -Z is ignored\n"},
		{"proxy --domain router", "run sidecar~10.0.0.1~a.ns~router", ""}, // the value of a known flag
		{"--bogus=value proxy router", router, "warning: unknown flag --bogus is ignored\n"},
		{"--bogus proxy router", `error: unknown command "router"`, ""},
		{"proxy ztunnel", `error: proxy "ztunnel": want sidecar or router`, ""},
		{"proxy sidecar router", "error: accepts at most 1 arg(s), received 2", ""},
		{"extra --bogus value --log_output_level=debug", "extra debug\n", "warning: unknown flag --bogus is ignored\n"},
		{"version --short --bogus value", "0.", "warning: unknown flag --bogus is ignored\n"},
	}
	for _, test := range tests {
		out, warnings, err := execute(t, good(), strings.Fields(test.args)...)
		if err != nil {
			out = "error: " + err.Error()
		}
		if !strings.Contains(out, test.want) || warnings != test.warning {
			t.Errorf("%s: output %q, warnings %q; want %q, %q", test.args, out, warnings, test.want, test.warning)
		}
	}
}

func TestAnnounces(t *testing.T) {
	t.Chdir(t.TempDir())
	env := append(good(), "XDS_AUTH_PROVIDER=x", "ENVOY_SECURE_METRICS_PORT=15091", `PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE","availabilityZone":"z"}`)
	out, _, err := execute(t, env, "proxy", "sidecar")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"info\tpilot-agent 0.", "proxy=sidecar~10.0.0.1~a.ns~ns.svc.cluster.local cluster=istio-proxy.ns\n",
		"info\teffective proxy configuration: availabilityZone: z\n", "info\teffective proxy configuration: binaryPath: /usr/local/bin/envoy\n",
		"warn\tproxy configuration field \"availabilityZone\" has no effect: ",
		"warn\tenvironment variables without effect: XDS_AUTH_PROVIDER\n",
		"warn\tenvironment variable ENVOY_SECURE_METRICS_PORT has no effect: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// backend serves like Envoy's admin interface and returns its port.
func backend(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func TestRequest(t *testing.T) {
	port := backend(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "%s %s %s\n", r.Method, r.URL, body)
	})
	byConfig := []string{fmt.Sprintf(`PROXY_CONFIG={"proxyAdminPort":%s}`, port)}
	tests := []struct {
		name    string
		environ []string
		args    []string
		want    string
	}{
		{"the admin port of PROXY_CONFIG", byConfig, []string{"GET", "/stats?filter=a"}, "GET /stats?filter=a \n"},
		{"a path without a slash, a method in lower case", byConfig, []string{"post", "drain"}, "POST /drain \n"},
		{"a body", byConfig, []string{"POST", "/logging", "level=info"}, "POST /logging level=info\n"},
		{"another port", nil, []string{"POST", "drain", "--debug-port=" + port}, "POST /drain \n"},
		{"another address", nil, []string{"GET", "/x", "--address", "localhost:" + port}, "GET /x \n"},
		{"an unknown flag", byConfig, []string{"GET", "/x", "--bogus", "value"}, "GET /x \n"},
	}
	for _, test := range tests {
		out, _, err := execute(t, test.environ, append([]string{"request"}, test.args...)...)
		if err != nil || out != test.want {
			t.Errorf("%s: %q, %v; want %q", test.name, out, err, test.want)
		}
	}
	if out, _, err := execute(t, byConfig, "request", "GET", "/missing"); err == nil || !strings.Contains(err.Error(), "404 Not Found") || out != "GET /missing \n" {
		t.Errorf("an answer of 404: %q, %v", out, err)
	}
	if got := adminPort(nil); got != 15000 {
		t.Errorf("default port %d", got)
	}
	if got := adminPort([]string{"PROXY_CONFIG={"}); got != 15000 {
		t.Errorf("default port with a broken PROXY_CONFIG %d", got)
	}
	if _, _, err := execute(t, nil, "request", "GET"); err == nil {
		t.Error("no error without a path")
	}
}

func TestWait(t *testing.T) {
	var asked atomic.Int32
	port := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 || r.URL.Path != "/healthz/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	ready := "http://localhost:" + port + "/healthz/ready"
	out, _, err := execute(t, nil, "wait", "--url", ready, "--periodMillis", "1")
	if err != nil || out != "the proxy is ready\n" || asked.Load() != 3 {
		t.Errorf("%q, %v after %d requests", out, err, asked.Load())
	}
	_, _, err = execute(t, nil, "wait", "--url", ready+"/never", "--periodMillis", "1", "--timeoutSeconds", "0")
	if err == nil || !strings.Contains(err.Error(), "the proxy is not ready after 0 s: ") {
		t.Errorf("error %v", err)
	}
	asked.Store(0)
	late := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusNotFound)
	})
	_, _, err = execute(t, nil, "wait", "--url", "http://localhost:"+late, "--periodMillis", "1", "--requestTimeoutMillis", "9000", "--timeoutSeconds", "1")
	if err == nil || !strings.Contains(err.Error(), "404 Not Found") {
		t.Errorf("error %v, want the answer that there was", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root := New(Options{Stdout: io.Discard, Stderr: io.Discard})
	root.SetArgs([]string{"wait", "--url", ready + "/never"})
	if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestScopes tests that one log scope of the agent can be enabled alone, as annotation
// sidecar.istio.io/agentLogLevel does.
func TestScopes(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	root := NewWithRunner(Options{Environ: good(), Stdout: &out, Stderr: &out}, func(_ context.Context, o agent.Options) error {
		o.Log.Info("quiet")
		o.Scope("dns").Debug("heard")
		o.Scope("sds").Info("quiet")
		return nil
	})
	root.SetArgs([]string{"proxy", "--log_output_level", "default:error,dns:debug"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasSuffix(got, "\tdebug\tdns\theard\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("logged:\n%s", got)
	}
}
