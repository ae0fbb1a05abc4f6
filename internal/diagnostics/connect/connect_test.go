package connect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestWays selects each way to a control plane, in order of precedence.
func TestWays(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o           Options
		names       string
		complete    bool
		usesCluster bool
		failure     string
	}{
		{o: Options{}, names: DefaultAddress},
		{o: Options{KubeconfigPaths: []string{kubeconfig + "-absent"}}, names: DefaultAddress},
		{o: Options{Servers: []string{"a:1"}, Kubeconfig: kubeconfig}, names: "a:1"},
		{o: Options{Servers: []string{"a:1", "b:1"}, XDSAddress: "c:1"}, names: "a:1 b:1", complete: true},
		{o: Options{KubeconfigPaths: []string{kubeconfig}}, usesCluster: true, failure: "read the kubeconfig"},
		{o: Options{XDSAddress: "c:1"}, failure: "no cluster is selected"},
		{o: Options{XDSAddress: "c:1", TokenFile: kubeconfig, RootsFile: kubeconfig}, failure: "have no certificate"},
	} {
		control, err := Open(t.Context(), c.o)
		if c.o.UsesKubernetes() != c.usesCluster {
			t.Errorf("%+v: UsesKubernetes is %t", c.o, !c.usesCluster)
		}
		if c.failure != "" {
			if err == nil || !strings.Contains(err.Error(), c.failure) {
				t.Errorf("%+v: error %v, want %q", c.o, err, c.failure)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.o, err)
			continue
		}
		var names []string
		for _, r := range control.Replicas {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != c.names || control.Complete != c.complete {
			t.Errorf("%+v: %q, complete %t", c.o, got, control.Complete)
		}
		control.Close()
	}
}

func TestKubeconfigPaths(t *testing.T) {
	for _, c := range []struct {
		variable, home string
		want           []string
	}{
		{"/a:/b", "/home/x", []string{"/a", "/b"}}, {"", "/home/x", []string{"/home/x/.kube/config"}}, {"", "", nil},
	} {
		if got := KubeconfigPaths(c.variable, c.home); !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %q, want %q", c.variable, c.home, got, c.want)
		}
	}
}

func TestHTTPPort(t *testing.T) {
	pod := func(ports ...int32) *corev1.Pod {
		c := corev1.Container{}
		for _, p := range ports {
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: p})
		}
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	for _, c := range []struct {
		ports []int32
		want  int
	}{{nil, debugPort}, {[]int32{8080, 15014}, debugPort}, {[]int32{15014}, monitoringPort}} {
		if got := httpPort(pod(c.ports...)); got != c.want {
			t.Errorf("%v: %d, want %d", c.ports, got, c.want)
		}
	}
}
