package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettings sets the same flag on the command line, by the environment and in the file, in order of
// precedence.
func TestSettings(t *testing.T) {
	serve := func(host string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"services":[{"hostname":"` + host + `","Attributes":{"Namespace":"shop"}}]}`))
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	inFlag, inVariable, inFile := serve("flag"), serve("variable"), serve("file")
	home := t.TempDir()
	write := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(home+"/.config/pilotctl.yaml", "server: "+inFile+"\noutput: name\n")
	other := write(home+"/other.yaml", "xds-address: 127.0.0.1:1\n")
	unknown := write(home+"/unknown.yaml", "sever: 127.0.0.1:1\n")
	kubeconfig := write(home+"/kubeconfig", "apiVersion: v1\nkind: Config\n")
	for _, c := range []struct {
		name, args string
		variables  map[string]string
		want       string
	}{
		{name: "the file", args: "services", want: "file\n"},
		{name: "a variable before the file", args: "services", variables: map[string]string{"PILOTCTL_SERVER": inVariable}, want: "variable\n"},
		{name: "the command line before both", args: "services --server " + inFlag, variables: map[string]string{"PILOTCTL_SERVER": inVariable}, want: "flag\n"},
		{name: "a format of the command line", args: "services -o json --server " + inFlag, want: `"hostname": "flag"`},
		{name: "another file", args: "services", variables: map[string]string{"PILOTCTL_CONFIG": other}, want: "--root-cert reads both from the cluster"},
		{name: "a way of the command line before the file's", args: "services --kubeconfig " + kubeconfig, want: "read the kubeconfig"},
		{name: "XDG_CONFIG_HOME", args: "services -o name", variables: map[string]string{"XDG_CONFIG_HOME": home + "/empty", "KUBECONFIG": kubeconfig}, want: "read the kubeconfig"},
		{name: "a file that does not exist", args: "services", variables: map[string]string{"PILOTCTL_CONFIG": home + "/absent"}, want: "no such file"},
		{name: "an unknown setting", args: "services", variables: map[string]string{"PILOTCTL_CONFIG": unknown}, want: `there is no setting "sever"`},
		{name: "a wrong format", args: "services", variables: map[string]string{"PILOTCTL_OUTPUT": "xml"}, want: `--output "xml"`},
		{name: "a namespace", args: "services", variables: map[string]string{"PILOTCTL_NAMESPACE": "bank"}, want: ""},
		{name: "output of a command whose flag means a file", args: "workload group create --name a -n shop", want: "kind: WorkloadGroup"},
	} {
		root := NewIn(Environment{Home: home, Variable: func(name string) string { return c.variables[name] }})
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(strings.Fields(c.args))
		err := root.ExecuteContext(t.Context())
		text := out.String()
		if err != nil {
			text += err.Error()
		}
		if !strings.Contains(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

func TestVariableOf(t *testing.T) {
	for flag, want := range map[string]string{
		"server": "PILOTCTL_SERVER", "xds-address": "PILOTCTL_XDS_ADDRESS", "istioNamespace": "PILOTCTL_ISTIO_NAMESPACE",
	} {
		if got := variableOf(flag); got != want {
			t.Errorf("%s: %s, want %s", flag, got, want)
		}
	}
}

// TestColors colors states on a terminal only, and not with NO_COLOR.
func TestColors(t *testing.T) {
	const text = "web-1   SYNCED   ERROR   NOT SENT\n"
	a := &pageClient{environment: Environment{Terminal: true}}
	if got, want := a.colored(text), "web-1   \x1b[32mSYNCED\x1b[0m   \x1b[31mERROR\x1b[0m   \x1b[33mNOT SENT\x1b[0m\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	a.environment.Variable = func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
	if got := a.colored(text); got != text {
		t.Errorf("with NO_COLOR: %q", got)
	}
	if got := new(pageClient).colored(text); got != text {
		t.Errorf("without a terminal: %q", got)
	}
}

// TestServerAddress adds the default port to hosts, and removes the scheme of URLs.
func TestServerAddress(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:15014": "127.0.0.1:15014", "istiod.istio-system": "istiod.istio-system:8080", "http://localhost:8080/": "localhost:8080",
		" 10.0.0.1 ": "10.0.0.1:8080", "[::1]": "[::1]:8080", "[::1]:80": "[::1]:80", "::1": "[::1]:8080", "https://a/b": "https://a/b",
	} {
		if got := serverAddress(text); got != want {
			t.Errorf("--server %q: %q, want %q", text, got, want)
		}
	}
}
