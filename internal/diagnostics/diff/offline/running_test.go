package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// TestCompareManifests compares manifests as users write them, with Deployments and without cluster
// IPs: a Service that is added changes no address of another one and conflicts with none.
func TestCompareManifests(t *testing.T) {
	const before = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: orders, namespace: shop}
spec: {selector: {matchLabels: {app: orders}}, template: {metadata: {labels: {app: orders}}, spec: {containers: [{name: orders}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: users-db, namespace: shop}
spec: {selector: {app: users-db}, ports: [{name: tcp, port: 5432}]}
`
	const added = `---
apiVersion: v1
kind: Service
metadata: {name: orders-db, namespace: shop}
spec: {selector: {app: orders-db}, ports: [{name: tcp, port: 5432}]}
`
	read := func(text string) *offline.Objects {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		objects, err := offline.ReadWorkloads([]string{dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	from, to := read(before), read(before+added)
	offline.SetAddresses(from, to)
	r, err := offline.Compare(from, to, offline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := r.Text()
	for _, want := range []string{
		"1 proxy: orders.shop\n",
		"outbound|5432||orders-db.shop.svc.cluster.local added\n",
		"_5432 added\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if len(r.NewProblems) > 0 || strings.Contains(text, "users-db") || strings.Contains(text, "removed") {
		t.Errorf("other objects change, or problems appear")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestPodsWithoutSidecar checks that only injected pods of manifests accept mutual TLS, and that
// the label overrides the annotation.
func TestPodsWithoutSidecar(t *testing.T) {
	const setting = `sidecar.istio.io/inject: "false"`
	for _, c := range []struct {
		metadata, spec string
		want           string
	}{
		{`labels: {app: web}`, "", "istio"},
		{`labels: {` + setting + `}`, "", ""},
		{`annotations: {` + setting + `}`, "", ""},
		{`labels: {sidecar.istio.io/inject: "true"}, annotations: {` + setting + `}`, "", "istio"},
		{`labels: {sidecar.istio.io/inject: "true"}`, "hostNetwork: true, ", ""},
	} {
		dir := t.TempDir()
		text := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n" +
			"spec: {template: {metadata: {" + c.metadata + "}, spec: {" + c.spec + "containers: [{name: web}]}}}\n"
		if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		objects, err := offline.ReadWorkloads([]string{dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		offline.SetAddresses(objects)
		for k, o := range objects.List {
			if k.Kind == api.Pod && o.Spec.(*corev1.Pod).Labels["security.istio.io/tlsMode"] != c.want {
				t.Errorf("the pod of a template with %s %s has the labels %v, want the TLS mode %q",
					c.metadata, c.spec, o.Spec.(*corev1.Pod).Labels, c.want)
			}
		}
		if len(objects.List) != 1 {
			t.Errorf("%d objects, want 1 pod", len(objects.List))
		}
	}
}
