package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/internal/discovery"
)

// TestClusterOfTheEnvironment shows which API server is meant where no flag names one.
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
		{"a flag", map[string]string{"KUBECONFIG": file}, discovery.Options{Kubernetes: discovery.Kubernetes{Kubeconfig: "other"}}, "other", false},
	} {
		o := test.before
		env := environment{lookup: func(name string) (string, bool) { v, ok := test.env[name]; return v, ok }}
		env.cluster(&o)
		if o.Kubernetes.Kubeconfig != test.kubeconfig || o.Kubernetes.InCluster != test.inCluster {
			t.Errorf("%s: %+v", test.about, o.Kubernetes)
		}
	}
}
