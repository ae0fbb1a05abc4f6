package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/discovery/options"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
)

// TestClusterOfTheEnvironment checks which API server is used if no flag names one.
func TestClusterOfTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		about      string
		env        map[string]string
		before     discovery.Options
		kubeconfig string
		inCluster  bool
	}{
		{"nothing", nil, discovery.Options{}, "", false},
		{"a pod", map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, discovery.Options{}, "", true},
		{"a shell", map[string]string{"KUBECONFIG": file}, discovery.Options{}, file, false},
		{"a shell, with files", map[string]string{"KUBECONFIG": file}, discovery.Options{ConfigDir: "dir"}, "", false},
		{"a pod of Istio's chart", map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBECONFIG": file + ".absent"}, discovery.Options{}, "", true},
		{"a flag", map[string]string{"KUBECONFIG": file}, discovery.Options{Kubernetes: options.Kubernetes{Kubeconfig: "other"}}, "other", false},
	} {
		o := test.before
		env := environment{lookup: func(name string) (string, bool) { v, ok := test.env[name]; return v, ok }}
		env.applyCluster(&o)
		if o.Kubernetes.Kubeconfig != test.kubeconfig || o.Kubernetes.InCluster != test.inCluster {
			t.Errorf("%s: %+v", test.about, o.Kubernetes)
		}
	}
}

// TestPlaintextPort: xDS in plain text is served only on loopback, unless the control plane runs in
// a pod or is configured otherwise.
func TestPlaintextPort(t *testing.T) {
	for _, test := range []struct {
		about     string
		inCluster bool
		flag      string // "": not set
		want      string
	}{
		{"a laptop", false, "", "127.0.0.1:15010"},
		{"a pod", true, "", ":15010"},
		{"a laptop that others call", false, ":15010", ":15010"},
		{"a pod without", true, "localhost:15010", "localhost:15010"},
	} {
		o := discovery.Defaults()
		o.Kubernetes.InCluster = test.inCluster
		if test.flag != "" {
			o.GRPCAddr = test.flag
		}
		if setPlaintextPort(&o, test.flag != ""); o.GRPCAddr != test.want {
			t.Errorf("%s: %s, want %s", test.about, o.GRPCAddr, test.want)
		}
	}
}

// TestInvalidNumbers tests that an invalid number or duration is an error that names the variable,
// and leaves the default unchanged.
func TestInvalidNumbers(t *testing.T) {
	const number, duration = 7.5, time.Minute
	for _, value := range []string{"-1", "much", "NaN", "Inf", "1e999"} {
		e := environment{lookup: func(string) (string, bool) { return value, true }}
		to := number
		if e.setFloat("X", &to); e.err == nil || !strings.Contains(e.err.Error(), "X") || to != number {
			t.Errorf("number %q: %v, error %v", value, to, e.err)
		}
	}
	e := environment{lookup: func(string) (string, bool) { return "soon", true }}
	to := duration
	if e.setDuration("X", &to); e.err == nil || !strings.Contains(e.err.Error(), "X") || to != duration {
		t.Errorf("duration: %v, error %v", to, e.err)
	}
}

// TestBooleanVariables checks that booleans have all forms of strconv.ParseBool, as in Istio, and that
// other values are errors that name the variable.
func TestBooleanVariables(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"PILOT_HTTP10", "True", ""},
		{"PILOT_HTTP10", "yes", `PILOT_HTTP10 "yes": want true or false`},
		{"ENABLE_XDS_API_GENERATOR_AUTH", "off", `ENABLE_XDS_API_GENERATOR_AUTH "off": want true or false`},
		{"ENABLE_XDS_API_GENERATOR_AUTH", "0", ""},
	} {
		o := discovery.Defaults()
		variables := map[string]string{test.name: test.value}
		env := environment{lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
		env.applyTo(&o)
		got := ""
		if env.err != nil {
			got = env.err.Error()
		}
		if got != test.want {
			t.Errorf("%s=%s: error %q, want %q", test.name, test.value, got, test.want)
		}
		if test.value == "True" && !o.Features.HTTP10 || test.value == "0" && o.ConfigPlainText != feed.PlainTextAnyone {
			t.Errorf("%s=%s has no effect", test.name, test.value)
		}
	}
}

// TestVariablesOfHeaders checks that headers of tracing providers may name any variable of the
// environment.
func TestVariablesOfHeaders(t *testing.T) {
	o := discovery.Defaults()
	env := environment{lookup: func(name string) (string, bool) { return "abc", name == "TOKEN" }}
	env.applyTo(&o)
	if value, ok := o.Features.LookupEnv("TOKEN"); value != "abc" || !ok {
		t.Errorf("TOKEN is %q, %v", value, ok)
	}
	if _, ok := o.Features.LookupEnv("OTHER"); ok {
		t.Error("OTHER is set")
	}
}
