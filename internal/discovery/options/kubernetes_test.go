package options

import "testing"

// TestConfigAndServiceSources checks when services and rules are read from an API server.
func TestConfigAndServiceSources(t *testing.T) {
	inPod, byFile := Kubernetes{InCluster: true}, Kubernetes{Kubeconfig: "kubeconfig"}
	for _, test := range []struct {
		about           string
		k               Kubernetes
		registries      []string
		configDir       string
		services, rules bool
	}{
		{"only files", Kubernetes{}, []string{"Kubernetes"}, "dir", false, false},
		{"a pod", inPod, []string{"Kubernetes"}, "", true, true},
		{"a pod with files", inPod, []string{"Kubernetes"}, "dir", true, false},
		{"a pod with files and no registry", inPod, nil, "dir", false, false},
		{"a pod without registry", inPod, nil, "", false, true},
		{"a kubeconfig", byFile, []string{"Kubernetes"}, "", true, true},
		{"a kubeconfig and files", byFile, []string{"Kubernetes"}, "dir", true, false},
	} {
		o := Options{Kubernetes: test.k, Registries: test.registries, ConfigDir: test.configDir}
		if services, rules := o.ServicesFromCluster(), o.ConfigFromCluster(); services != test.services || rules != test.rules {
			t.Errorf("%s: services %v, rules %v; want %v, %v", test.about, services, rules, test.services, test.rules)
		}
	}
	if c, err := (Options{Kubernetes: inPod, ConfigDir: "dir"}).NewClient(); c != nil || err != nil {
		t.Errorf("a client although none is needed: %v, %v", c, err)
	}
}
