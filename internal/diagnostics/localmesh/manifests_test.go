package localmesh

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// read writes files into a directory and reads them as manifests.
func read(t *testing.T, files map[string]string) (*manifests, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := readManifests([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

// deployment returns a Deployment in the namespace shop, with fields of its spec and its container.
func deployment(name, spec, container string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + ", namespace: shop}\nspec:\n  " + spec + "\n" +
		"  template:\n    metadata: {labels: {app: " + name + "}}\n    spec:\n      containers:\n      - {name: web, " + container + "}\n"
}

// TestNoSidecar: the label of injection runs a workload without a proxy, and clients call it in
// plain text. A gateway without one is a mistake.
func TestNoSidecar(t *testing.T) {
	without := func(name, spec string) string {
		return strings.Replace(deployment(name, spec, "command: [sleep]"), "{app: ", `{sidecar.istio.io/inject: "false", app: `, 1)
	}
	labelled := strings.Replace(deployment("web", "replicas: 1", "command: [sleep]"), "metadata: {labels: {",
		`metadata: {annotations: {sidecar.istio.io/inject: "false"}, labels: {sidecar.istio.io/inject: "true", `, 1)
	gateway := strings.Replace(without("gw", "replicas: 1"), "metadata: {labels", "metadata: {annotations: {inject.istio.io/templates: gateway}, labels", 1)
	m, _ := read(t, map[string]string{"a.yaml": without("legacy", "replicas: 1"), "b.yaml": gateway, "c.yaml": labelled})
	if len(m.problems) != 1 || !strings.Contains(m.problems[0], "Deployment shop/gw: spec.template: a gateway is a proxy") {
		t.Errorf("problems %q", m.problems)
	}
	if len(m.workloads) != 2 || !m.workloads[0].NoSidecar || m.workloads[1].NoSidecar {
		t.Fatalf("workloads %+v", m.workloads)
	}
	for i, want := range []any{nil, "default"} {
		spec, _ := m.workloads[i].entry(netip.MustParseAddr("10.66.1.1"))["spec"].(map[string]any)
		if account := spec["serviceAccount"]; account != want {
			t.Errorf("%s: service account %v of the WorkloadEntry, want %v", m.workloads[i].Name, account, want)
		}
	}
}

func TestDeployments(t *testing.T) {
	m, dir := read(t, map[string]string{
		"web.yaml": deployment("web", "replicas: 2", "command: [sleep, '9'], args: [x], ports: [{name: http, containerPort: 80}, {containerPort: 53, protocol: UDP}], "+
			"env: [{name: A, value: b}, {name: SELF, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
		"none.yaml": deployment("none", "replicas: 0", "command: [sleep]"),
		"sub/gateway.json": `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gw"}, "spec": {"template": {"metadata":
			{"annotations": {"inject.istio.io/templates": "gateway"}}, "spec": {"containers": [{"name": "istio-proxy", "image": "auto"}]}}}}`,
		".hidden/bad.yaml": "kind: [",
	})
	if len(m.problems) > 0 {
		t.Errorf("problems %q", m.problems)
	}
	var names []string
	for _, w := range m.workloads {
		names = append(names, w.FullName())
	}
	if got := strings.Join(names, " "); got != "gw.default web-1.shop web-2.shop" {
		t.Fatalf("workloads %s", got)
	}
	if gw := m.workloads[0]; !gw.Gateway || len(gw.Programs) > 0 || gw.ServiceAccount != "default" {
		t.Errorf("the gateway is %+v", gw)
	}
	p := m.workloads[2].Programs[0]
	if got := strings.Join(p.Args[1:], " "); got != "9 x" || !filepath.IsAbs(p.Args[0]) || p.Dir != dir || len(p.Ports) != 1 || p.Ports[0] != 80 {
		t.Errorf("the program is %+v", p)
	}
	if got := strings.Join(p.Env, " "); got != "A=b SELF=web-2" {
		t.Errorf("the environment is %s", got)
	}
}

// TestMistakes makes one mistake in each Deployment. The problem names object and field, and the
// workload of the last one is run.
func TestMistakes(t *testing.T) {
	for want, text := range map[string]string{
		"Deployment shop/a: spec.replicas: 21 is not between 0 and 20":                    deployment("a", "replicas: 21", "command: [sleep]"),
		"Deployment shop/b: spec.template.spec.containers[0].command: is required":        deployment("b", "replicas: 1", "image: nginx"),
		`spec.template.spec.containers[0].command: exec: "no-such-program"`:               deployment("c", "replicas: 1", "command: [no-such-program]"),
		"spec.template.spec.containers[0].volumeMounts: is not supported":                 deployment("d", "replicas: 1", "command: [sleep], volumeMounts: [{name: v, mountPath: /v}]"),
		"spec.template.spec.containers[0].envFrom: is not supported":                      deployment("e", "replicas: 1", "command: [sleep], envFrom: [{}]"),
		"spec.template.spec.containers[0].env[0].valueFrom: is not supported":             deployment("f", "replicas: 1", "command: [sleep], env: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]"),
		`unknown field "spec.template.spec.containers[0].comand"`:                         deployment("g", "replicas: 1", "comand: [sleep]"),
		"spec.template.spec.initContainers: is not supported":                             deployment("h", "replicas: 1", "command: [sleep]") + "      initContainers: [{name: i}]\n",
		"Deployment shop/i-and-a-name-of-more-than-sixty-characters-for-a-host-name: met": deployment("i-and-a-name-of-more-than-sixty-characters-for-a-host-name", "replicas: 1", "command: [sleep]"),
		"Pod default/p: its programs are not run":                                         "kind: Pod\nmetadata: {name: p}\n",
		"Service shop/j: spec.clusterIP: None is not supported": "kind: Service\nmetadata: {name: j, namespace: shop}\n" +
			"spec: {clusterIP: None, selector: {app: good}, ports: [{port: 80}]}\n",
		"document 1: error converting YAML to JSON": "kind: [\n",
	} {
		good := deployment("good", "replicas: 1", "command: [sleep]")
		m, _ := read(t, map[string]string{"bad.yaml": text + "---\n" + good})
		if len(m.problems) != 1 || !strings.Contains(m.problems[0], want) || !strings.Contains(m.problems[0], "bad.yaml: ") {
			t.Errorf("problems %q, want %q", m.problems, want)
		}
		if len(m.workloads) != 1 || m.workloads[0].Name != "good" {
			t.Errorf("with %q, workloads %+v", want, m.workloads)
		}
	}
}

func TestSameNames(t *testing.T) {
	m, _ := read(t, map[string]string{
		"1.yaml": deployment("web-1", "replicas: 1", "command: [sleep]"),
		"2.yaml": deployment("web", "replicas: 2", "command: [sleep]"),
	})
	if len(m.workloads) != 2 || len(m.problems) != 1 || !strings.Contains(m.problems[0], "Deployment shop/web: its workload web-1.shop exists already") {
		t.Errorf("workloads %+v, problems %q", m.workloads, m.problems)
	}
}

// TestFilesForTheControlPlane checks that Services get addresses and numeric ports, that
// Deployments are left out, and that other objects stay in their lines.
func TestFilesForTheControlPlane(t *testing.T) {
	const rule = "kind: VirtualService\nmetadata: {name: web, namespace: shop}\n"
	const service = "# comment\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec:\n" +
		"  selector: {app: web}\n  ports: [{name: http, port: 80, targetPort: http}, {name: x, port: 81, targetPort: nothing}]\n"
	text := service + "---\n" + deployment("web", "replicas: 1", "command: [sleep], ports: [{name: http, containerPort: 8080}]") + "---\n" + rule
	m, _ := read(t, map[string]string{"a/web.yaml": text})
	pool := newAddressPool(serviceRange, netip.MustParseAddr("10.96.0.0"))
	files, err := m.renderFiles(pool)
	if err != nil {
		t.Fatal(err)
	}
	got := files["files-1/a/web.yaml"]
	if !strings.Contains(got, `"clusterIP":"10.96.0.1"`) || !strings.Contains(got, `"targetPort":8080`) || strings.Contains(got, "Deployment") {
		t.Errorf("the file is\n%s", got)
	}
	if len(m.problems) != 1 || !strings.Contains(m.problems[0], `Service shop/web: spec.ports[1].targetPort: no container of a selected Deployment has a port "nothing"`) {
		t.Errorf("problems %q", m.problems)
	}
	lineOf := func(text string) int { return strings.Count(text[:strings.Index(text, rule)], "\n") }
	if lineOf(got) != lineOf(text) {
		t.Errorf("the rule is in line %d, was in line %d:\n%s", lineOf(got), lineOf(text), got)
	}
	again, err := m.renderFiles(pool)
	if err != nil || again["files-1/a/web.yaml"] != got {
		t.Errorf("rendered again, the file is %v\n%s", err, again["files-1/a/web.yaml"])
	}
}

func TestAddressesAreKept(t *testing.T) {
	pool := newAddressPool(netip.MustParsePrefix("10.0.0.0/30"), netip.MustParseAddr("10.0.0.0"))
	pool.reserve(netip.MustParseAddr("10.0.0.1"))
	for _, c := range []struct{ name, want string }{{"a", "10.0.0.2"}, {"b", "10.0.0.3"}, {"a", "10.0.0.2"}} {
		if got, err := pool.assign(c.name); err != nil || got.String() != c.want {
			t.Errorf("the address of %s is %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	if _, err := pool.assign("c"); err == nil || !strings.Contains(err.Error(), "10.0.0.0/30 are exhausted") {
		t.Errorf("a fourth address: %v", err)
	}
}

// TestUpWithoutSupervisor: if the supervisor cannot be started, no files stay.
func TestUpWithoutSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	if _, err := Up(t.Context(), Options{Dir: dir}, []string{filepath.Join(dir, "absent")}, nil, nil); err == nil {
		t.Error("an absent program was started")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the mesh: %v", err)
	}
}

// TestRunNames: the name of a workload is derived from its program and valid.
func TestRunNames(t *testing.T) {
	for program, want := range map[string]string{"my_app.py": "my-app-py-run-1", "___": "program-run-1", "测试": "program-run-1"} {
		if got, err := new(Supervisor).runName(RunOptions{Namespace: "shop"}, program); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", program, got, err, want)
		}
	}
}

// TestDirectoryOfAnother checks that the state is not kept where another user could change it.
func TestDirectoryOfAnother(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), "only this user can write") {
		t.Errorf("a directory that everyone can write to: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !isLocked(dir) {
		t.Errorf("a locked directory: %v", err)
	}
	lock.Close()
	if isLocked(dir) {
		t.Error("the directory is locked after its lock was closed")
	}
}
