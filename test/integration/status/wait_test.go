package status

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// TestWaitForTwoReplicas runs pilotctl wait right after objects were changed in the API server, for
// the proxies of two replicas.
func TestWaitForTwoReplicas(t *testing.T) {
	l := newLab(t)
	l.apply(service)
	a, b := l.replica("pilot-a", nil), l.replica("pilot-b", nil)
	p1, p2 := a.connect("one", "10.1.0.1", nil), b.connect("two", "10.1.0.2", nil)
	l.eventually("proxies are served", func() error {
		return served([]string{api.ClusterType, api.ListenerType, api.RouteType}, p1, p2)
	})
	file := filepath.Join(t.TempDir(), "route.yaml")
	apply := func(text string) {
		t.Helper()
		l.apply(text)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(code int, want string, args ...string) {
		t.Helper()
		c := cli.New()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetArgs(append([]string{"wait", "--server", a.HTTP + "," + b.HTTP, "--namespace", l.shop}, args...))
		err := c.ExecuteContext(t.Context())
		text := fmt.Sprintf("%s%v", out.String(), err) // a rejection is the error
		if cli.ExitCode(err) != code || !strings.Contains(text, want) {
			t.Fatalf("wait %v: exit code %d, want %d and %q:\n%s", args, cli.ExitCode(err), code, want, text)
		}
	}
	inAPIServer := []string{"--filename", file, "--kubeconfig", l.cluster.Kubeconfig()}
	for _, timeout := range []string{"1s", "2s", "3s"} {
		apply(virtualService("", timeout))
		wait(0, "(pilot-b): 1 proxy is up to date", inAPIServer...)
	}

	// A proxy of the other replica does not answer.
	p2.SetSilent(true)
	apply(virtualService("", "4s"))
	wait(3, "(pilot-b): 0 of 1 proxies up to date; behind: two."+l.shop, append(inAPIServer, "--timeout", "2s")...)
	p2.SetSilent(false)
	wait(0, "(pilot-b): 1 proxy is up to date", inAPIServer...)

	// An edit without effect makes a new generation, which no proxy is sent.
	before := p1.Responses()
	apply(strings.Replace(virtualService("", "4s"), "http:", "gateways: [mesh]\n  http:", 1))
	apply(virtualService("", "4s"))
	wait(0, "1 proxy is up to date", inAPIServer...)
	if n := p1.Responses(); n > before+2 {
		t.Errorf("%d responses for edits without effect", n-before)
	}

	// A generation that the control plane refuses, and the deletion.
	apply(strings.Replace(virtualService("", "5s"), "hosts: [reviews]", "hosts: [a..b]", 1))
	wait(4, "invalid, the version before it stays in use: spec.hosts[0]",
		"virtualservice/reviews", "--kubeconfig", l.cluster.Kubeconfig(), "--timeout", (20 * time.Second).String())
	if err := l.client.Dynamic.Resource(resource(l, "VirtualService")).Namespace(l.shop).Delete(t.Context(), "reviews", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait(0, "VirtualService", "virtualservice/reviews", "--deleted")
}
