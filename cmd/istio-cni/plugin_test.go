package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

const previous = `{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0"}], "ips": [{"interface": 0, "address": "172.18.0.11/24"}]}`

// node is a node with an API server and the plugin's directory.
type node struct {
	t         *testing.T
	c         *cluster.Cluster
	namespace string
	dir       string
}

// newNode returns a node with credentials that have exactly the permissions of the plugin's chart.
func newNode(t *testing.T) *node {
	t.Helper()
	c := shared.Start(t)
	n := &node{t: t, c: c, namespace: c.Namespace(t, "cni", nil), dir: t.TempDir()}
	config := c.ServiceAccountConfig(t, n.namespace, "istio-cni")
	c.Grant(
		t,
		cluster.ServiceAccount(n.namespace, "istio-cni"),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
	)
	text, err := os.ReadFile(c.KubeconfigOf(t, config))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, cni.KubeconfigName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}

// configuration returns the plugin's configuration with additional keys.
func (n *node) configuration(more map[string]any) string {
	c := map[string]any{
		"cniVersion":        "1.0.0",
		"name":              "mynet",
		"type":              cni.Name,
		"cni_agent_run_dir": n.dir,
		"plugin_log_level":  "debug",
		"prevResult":        json.RawMessage(previous),
	}
	for k, v := range more {
		c[k] = v
	}
	text, err := json.Marshal(c)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// create creates an injected Pod and returns the CNI_ARGS of a runtime for it.
func (n *node) create(name string, annotations map[string]string) string {
	n.t.Helper()
	all := map[string]string{"sidecar.istio.io/status": "{}"}
	for k, v := range annotations {
		all[k] = v
	}
	pod, err := n.c.Client(n.t).CoreV1().Pods(n.namespace).Create(n.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: all},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "app", Image: "app"},
			{
				Name:  "istio-proxy",
				Image: "proxy",
				Args:  []string{"proxy", "sidecar"},
				Env:   []corev1.EnvVar{{Name: "ISTIO_DUAL_STACK", Value: "true"}},
			},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return n.arguments(name, string(pod.UID))
}

func (n *node) arguments(name, uid string) string {
	return fmt.Sprintf(
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=%s",
		n.namespace, name, uid)
}

// TestAdd adds a pod as a container runtime does, sends packets, checks, breaks and removes the
// rules.
func TestAdd(t *testing.T) {
	for name, more := range map[string]map[string]any{"iptables": nil, "nftables": {"native_nftables": true}} {
		t.Run(name, func(t *testing.T) {
			s := newSandbox(t)
			n := newNode(t)
			pod := n.create("web", map[string]string{"traffic.sidecar.istio.io/excludeInboundPorts": "7000"})
			configuration := n.configuration(more)
			validation := []string{
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
				"15090,15021,7000",
				"--dual-stack",
				"--run-validation",
				"--skip-rule-apply",
				"--probe-timeout",
				"400ms",
			}
			if got := validate(t, s.pod, validation); got != 126 {
				t.Errorf("without the plugin the validation ends with %d, want 126", got)
			}
			result, failed := call(t, "ADD", path(s.pod), pod, configuration)
			if failed != nil {
				t.Fatalf("ADD: %+v", failed)
			}
			var got, want map[string]any
			if err := json.Unmarshal([]byte(previous), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(result), &got); err != nil {
				t.Fatal(err)
			}
			delete(got, "dns") // encoded even if it is empty
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the result is not that of the plugin before (-want +got):\n%s", diff)
			}
			if got := validate(t, s.pod, validation); got != 0 {
				t.Errorf("after the plugin the validation ends with %d, want 0", got)
			}

			for port, label := range map[uint16]string{15001: "outbound", 15006: "inbound", 7000: "app", 8080: "app", 15021: "agent"} {
				answerAt(t, s.pod, port, label)
			}
			answerAt(t, s.host, 8080, "host")
			for _, a := range []struct{ pod, host string }{{podAddress4, hostAddress4}, {podAddress6, hostAddress6}} {
				expect(t, "inbound")(ask(s.host, 0, a.pod, 8080))
				expect(t, "app")(ask(s.host, 0, a.pod, 7000))
				expect(t, "agent")(ask(s.host, 0, a.pod, 15021))
				expect(t, "outbound")(ask(s.pod, 2000, a.host, 8080))
				expect(t, "host")(ask(s.pod, 1337, a.host, 8080))
			}

			if _, failed := call(t, "CHECK", path(s.pod), pod, configuration); failed != nil {
				t.Errorf("CHECK: %+v", failed)
			}
			if _, failed := call(t, "ADD", path(s.pod), pod, configuration); failed != nil {
				t.Errorf("ADD again: %+v", failed)
			}
			clean(t, s)
			if _, failed := call(
				t,
				"CHECK",
				path(s.pod),
				pod,
				configuration,
			); failed == nil ||
				!strings.Contains(failed.Msg, "not captured") {
				t.Errorf("CHECK of a pod without rules: %+v, want a failure", failed)
			}
			for _, command := range []string{"DEL", "DEL"} {
				if out, failed := call(t, command, path(s.pod), pod, configuration); failed != nil || out != "" {
					t.Errorf("DEL: %q, %+v", out, failed)
				}
			}
		})
	}
}

func expect(t *testing.T, want string) func(string, error) {
	return func(got string, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("got %q (error %v), want %q", got, err, want)
		}
	}
}

func clean(t *testing.T, s sandbox) {
	t.Helper()
	o := iptables.DefaultOptions()
	o.NetworkNamespace, o.CNIMode, o.CleanupOnly = path(s.pod), true, true
	if err := iptables.Run(t.Context(), o, iptables.System(discard(), nil)); err != nil {
		t.Fatal(err)
	}
}

// TestPodsWithoutCapture tests that pods not to be captured have no rules, and that the result is
// passed on.
func TestPodsWithoutCapture(t *testing.T) {
	s := newSandbox(t)
	n := newNode(t)
	web := n.create("web", nil)
	off := n.create("off", map[string]string{"sidecar.istio.io/inject": "false"})
	for name, c := range map[string]struct {
		pod  string
		more map[string]any
	}{
		"not of Kubernetes":               {"", nil},
		"excluded namespace":              {web, map[string]any{"exclude_namespaces": []string{n.namespace}}},
		"excluded namespace, old key":     {web, map[string]any{"kubernetes": map[string]any{"exclude_namespaces": []string{n.namespace}}}},
		"injection is off":                {off, nil},
		"the installer, without anything": {n.arguments("istio-cni-node-x", "u"), map[string]any{"pod_namespace": n.namespace, "cni_agent_run_dir": "/nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, failed := call(t, "ADD", path(s.pod), c.pod, n.configuration(c.more))
			if failed != nil || !strings.Contains(out, "172.18.0.11/24") {
				t.Fatalf("got %q, %+v", out, failed)
			}
			o := iptables.DefaultOptions()
			o.NetworkNamespace = path(s.pod)
			if err := iptables.Check(t.Context(), o, iptables.System(discard(), nil)); err == nil {
				t.Error("there are rules")
			}
		})
	}
}

// TestFailures tests that errors have codes of the specification.
func TestFailures(t *testing.T) {
	s := newSandbox(t)
	n := newNode(t)
	web := n.create("web", nil)
	wrong := n.create("wrong", map[string]string{"traffic.sidecar.istio.io/includeInboundPorts": "many"})
	for name, c := range map[string]struct {
		command, network, pod, configuration string
		code                                 uint
		want                                 string
	}{
		"a wrong annotation":   {"ADD", path(s.pod), wrong, n.configuration(nil), 7, "traffic.sidecar.istio.io/includeInboundPorts"},
		"the node's own":       {"ADD", "/proc/self/ns/net", web, n.configuration(nil), 8, "own network namespace"},
		"no network namespace": {"ADD", "/nowhere", web, n.configuration(nil), 999, "/nowhere"},
		"no JSON":              {"ADD", path(s.pod), web, "{", 6, ""},
		"a version to come":    {"ADD", path(s.pod), web, n.configuration(map[string]any{"cniVersion": "9.0.0"}), 1, "incompatible"},
		"ambient":              {"ADD", path(s.pod), web, n.configuration(map[string]any{"ambient_enabled": true}), 2, "ambient"},
		"arguments":            {"ADD", path(s.pod), "K8S_POD_NAME", n.configuration(nil), 4, "CNI_ARGS"},
		"check alone":          {"CHECK", path(s.pod), web, n.configuration(map[string]any{"prevResult": nil}), 7, "prevResult"},
		"status":               {"STATUS", "", "", n.configuration(map[string]any{"cniVersion": "1.1.0", "prevResult": nil, "cni_agent_run_dir": "/nowhere"}), 50, "API server"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failed := call(t, c.command, c.network, c.pod, c.configuration)
			if failed == nil || failed.Code != c.code || !strings.Contains(failed.Msg+failed.Details, c.want) {
				t.Errorf("got %+v, want code %d with %q", failed, c.code, c.want)
			}
		})
	}
	for _, command := range []string{"STATUS", "GC"} {
		if out, failed := call(
			t,
			command,
			"",
			"",
			n.configuration(map[string]any{"cniVersion": "1.1.0", "prevResult": nil}),
		); failed != nil ||
			out != "" {
			t.Errorf("%s: %q, %+v", command, out, failed)
		}
	}
	out, failed := call(t, "VERSION", "", "", `{"cniVersion": "1.0.0"}`)
	var versions struct{ SupportedVersions []string }
	if err := json.Unmarshal(
		[]byte(out),
		&versions,
	); err != nil || failed != nil ||
		!slices.Contains(versions.SupportedVersions, "1.1.0") {
		t.Errorf("VERSION: %q, %+v, error %v", out, failed, err)
	}
}

// TestPodIsNotYetKnown tests that reading a Pod is retried while an earlier pod has its name,
// whose rules would differ.
func TestPodIsNotYetKnown(t *testing.T) {
	newSandbox(t) // skips the test without the required privileges
	n := newNode(t)
	n.create("web", nil)
	args := skelArgs(n.arguments("web", "another-uid"), n.configuration(nil))
	p := &cni.Plugin{Log: discard(), Out: os.Stdout, ReadTimeout: 2 * time.Second} // several attempts, on a busy machine too
	err := p.Add(t.Context(), args)
	if err == nil || !strings.Contains(err.Error(), "another-uid") {
		t.Errorf("got error %v, want one that names the UID", err)
	}
	args = skelArgs(n.arguments("nobody", "u"), n.configuration(nil))
	if err := p.Add(t.Context(), args); err == nil || !strings.Contains(err.Error(), `"nobody" not found`) {
		t.Errorf("got error %v, want that the pod is not found", err)
	}
}

// TestLogIsKept tests the log file for operators.
func TestLogIsKept(t *testing.T) {
	s := newSandbox(t)
	n := newNode(t)
	if _, failed := call(t, "ADD", path(s.pod), n.create("web", nil), n.configuration(nil)); failed != nil {
		t.Fatalf("%+v", failed)
	}
	text, err := os.ReadFile(filepath.Join(n.dir, logName))
	if err != nil || !strings.Contains(string(text), "effective configuration") {
		t.Errorf("the log: %s (error %v)", text, err)
	}
}
