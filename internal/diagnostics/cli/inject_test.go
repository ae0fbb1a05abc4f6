package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const deployment = `# A comment.
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, image: "web:1"}]}}}
`

func runInject(t *testing.T, in string, args ...string) (out, said string, err error) {
	t.Helper()
	c := New()
	var stdout, stderr bytes.Buffer
	c.SetArgs(append([]string{"inject", "-f", "-"}, args...))
	c.SetIn(strings.NewReader(in))
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	err = c.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInject injects without a cluster: with the built-in settings, and with files.
func TestInject(t *testing.T) {
	t.Run("built in", func(t *testing.T) {
		out, said, err := runInject(t, deployment, "--offline", "-n", "shop")
		if err != nil || said != "" {
			t.Fatal(err, said)
		}
		for _, want := range []string{"# A comment.", "name: istio-init", "name: istio-proxy", "namespaces/shop/deployments/web"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
	})
	t.Run("native", func(t *testing.T) {
		out, _, err := runInject(t, deployment, "--offline", "--nativeSidecars", "true")
		if err != nil || !strings.Contains(out, "restartPolicy: Always") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	files := []string{
		"--valuesFile", write(t, `{"greeting": "hello"}`), "--meshConfigFile", write(t, "trustDomain: td\ntrustDomian: x\n"),
	}
	t.Run("a configuration", func(t *testing.T) {
		config := write(
			t,
			"policy: enabled\ntemplates:\n  sidecar: |\n    metadata: {labels: {g: \"{{ .Values.greeting }}-{{ .MeshConfig.TrustDomain }}-{{ .Revision }}\"}}\n",
		)
		out, said, err := runInject(t, deployment, append(files, "--injectConfigFile", config, "--revision", "canary")...)
		if err != nil || !strings.Contains(out, "g: hello-td-canary") {
			t.Errorf("%v\n%s", err, out)
		}
		if want := `trustDomian: is not known to this version of meshpilot, and has no effect; did you mean "trustDomain"?`; !strings.Contains(said, want) {
			t.Errorf("warnings are %q, want %q", said, want)
		}
	})
	t.Run("a template alone", func(t *testing.T) {
		out, _, err := runInject(
			t,
			deployment,
			append(files, "--injectConfigFile", write(t, "metadata: {labels: {g: \"{{ .Values.greeting }}\"}}"))...)
		if err != nil || !strings.Contains(out, "g: hello") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("left alone", func(t *testing.T) {
		out, said, err := runInject(
			t,
			strings.Replace(deployment, "template: {spec: {", "template: {spec: {hostNetwork: true, ", 1),
			"--offline",
		)
		if err != nil || strings.Contains(out, "istio-proxy") ||
			!strings.Contains(said, "Deployment web is not injected") {
			t.Errorf("%v %q\n%s", err, said, out)
		}
	})
	t.Run("label with another spelling of false", func(t *testing.T) {
		out, said, err := runInject(t, strings.Replace(deployment, "template: {spec: {",
			`template: {metadata: {labels: {sidecar.istio.io/inject: "False"}}, spec: {`, 1), "--offline")
		want := `===> Deployment web: label sidecar.istio.io/inject: "False" is neither true nor false and is ignored`
		if err != nil || !strings.Contains(out, "istio-proxy") || !strings.Contains(said, want) {
			t.Errorf("%v, stderr %q, want %q\n%s", err, said, want, out)
		}
	})
	t.Run("no cluster", func(t *testing.T) {
		_, _, err := runInject(t, deployment, "--kubeconfig", filepath.Join(t.TempDir(), "none"))
		if err == nil || !strings.Contains(err.Error(), "--offline") {
			t.Error(err)
		}
	})
	t.Run("wrong flag", func(t *testing.T) {
		if _, _, err := runInject(t, deployment, "--offline", "--nativeSidecars", "maybe"); err == nil {
			t.Error("no error, want one")
		}
	})
}
