package pilotctl

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
)

// TestCommandsThatReachPods reaches the admin interfaces of two Envoys and the pages of the control plane
// by port-forward. The Envoys are files: what a real one answers is shown by TestEnvoyItself.
func TestCommandsThatReachPods(t *testing.T) {
	l := newLab(t)
	a := l.replica("istiod-a", "default", nil)
	for name, text := range map[string]string{"one": "root A", "two": "root A\n", "three": "root B"} {
		l.podWithRoots(a, name, text)
	}
	l.pilotctl("rootca-compare", "one", "two", "-n", l.shop).want(t, 0, "have the same root certificates")
	l.pilotctl("rootca-compare", "one."+l.shop, "three."+l.shop).want(t, 1, "differ")
	l.pilotctl("rootca-compare", "one."+l.shop, "absent."+l.shop).want(t, 1, `pods "absent" not found`)
	l.pilotctl("pc", "secret", "one", "-n", l.shop, "--envoy").want(t, 0, "ROOTCA")
	l.pilotctl("version", "--remote").want(t, 0, "control plane version (istiod-a): ", "no proxies are connected")

	// Secrets are planted in the environment of a pod, and in a Secret.
	l.pod(l.system, "leaky", nil, func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DB_PASSWORD", Value: "hunter2"}}
		p.Spec.Containers[0].Args = []string{"--token=hunter2"}
	})
	l.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: leaky, namespace: " + l.system + "}\nstringData: {x: hunter2}")
	out := filepath.Join(t.TempDir(), "report.tar.gz")
	l.pilotctl("bug-report", "--out", out).want(t, 0, "report.tar.gz has ")
	text, err := exec.CommandContext(t.Context(), "tar", "-xzOf", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if !bytes.Contains(text, []byte("DB_PASSWORD")) || bytes.Contains(text, []byte("hunter2")) {
		t.Errorf("the pod is missing, or a secret is left in %s", text)
	}
	l.dashboard("/debug/", "istiod-debug")
	l.kubelet.forward("three", 15000, a.HTTP)
	l.dashboard("/", "envoy", "three."+l.shop)
	l.pilotctl("dashboard", "grafana").want(t, 1, "no running pod with the labels app.kubernetes.io/name=grafana")
}

// podWithRoots creates a pod whose Envoy has root certificates.
func (l *lab) podWithRoots(a *replica, name, roots string) {
	l.Helper()
	envoy := newFront(l.T, a.HTTP)
	envoy.set("/config_dump", `{"configs":[{"dynamic_active_secrets":[{"secret":{"name":"ROOTCA","validation_context":{"trusted_ca":{"inline_bytes":"`+
		base64.StdEncoding.EncodeToString([]byte(roots))+`"}}}}]}]}`)
	l.kubelet.forward(name, 15000, envoy.address())
	l.pod(l.shop, name, nil, nil)
}

// dashboard runs pilotctl dashboard, reads the page at the URL that it prints, and interrupts it. It returns
// the URL.
func (l *lab) dashboard(path string, args ...string) string {
	l.Helper()
	ctx, interrupt := context.WithCancel(l.Context())
	defer interrupt()
	reader, writer := io.Pipe()
	c := cli.New()
	c.SetOut(writer)
	c.SetArgs(append([]string{"dashboard", "--kubeconfig", l.cluster.Kubeconfig(), "--istioNamespace", l.system}, args...))
	done := make(chan error, 1)
	go func() {
		err := c.ExecuteContext(ctx)
		_ = writer.CloseWithError(io.EOF)
		done <- err
	}()
	line := make([]byte, 256)
	n, err := reader.Read(line)
	if err != nil {
		l.Fatalf("no URL: %v, %v", err, <-done)
	}
	url := strings.TrimSpace(string(line[:n]))
	if !strings.HasSuffix(url, path) {
		l.Errorf("the URL is %q", url)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		l.Fatal(err)
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		l.Fatal(err)
	}
	answer.Body.Close()
	interrupt()
	if err := <-done; err != nil {
		l.Errorf("interrupted: %v", err)
	}
	return url
}
