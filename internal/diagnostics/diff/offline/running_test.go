package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
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
