package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
)

// TestReadRetiredKinds reads clusters with definitions of retired kinds, and ones whose API server does
// not return the groups or the objects. Each API server has no other kind.
func TestReadRetiredKinds(t *testing.T) {
	const (
		groups = `{"kind":"APIGroupList","apiVersion":"v1","groups":[
			{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]},
			{"name":"rbac.istio.io","versions":[{"groupVersion":"rbac.istio.io/v1","version":"v1"},{"groupVersion":"rbac.istio.io/v1alpha1","version":"v1alpha1"}]}]}`
		resources = `{"kind":"APIResourceList","apiVersion":"v1","resources":[
			{"name":"serviceroles","kind":"ServiceRole","namespaced":true,"verbs":["get","list"]},
			{"name":"serviceroles/status","kind":"ServiceRole","namespaced":true,"verbs":["get"]},
			{"name":"rbacconfigs","kind":"RbacConfig","namespaced":true,"verbs":["get"]},
			{"name":"others","kind":"Other","namespaced":true,"verbs":["get","list"]}]}`
		roles = `{"kind":"ServiceRoleList","apiVersion":"rbac.istio.io/v1","items":[]}`
		file  = "cluster/serviceroles.rbac.istio.io.json"
	)
	for name, c := range map[string]struct {
		answers       map[string]string // by path; a number is the code of a failure
		want          []string
		warning, fail string
	}{
		"none":            {answers: map[string]string{"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`}},
		"two versions":    {answers: map[string]string{"/apis": groups, "/apis/rbac.istio.io/v1": resources, "/apis/rbac.istio.io/v1alpha1": resources, "/apis/rbac.istio.io/v1/serviceroles": roles}, want: []string{file}},
		"one is gone":     {answers: map[string]string{"/apis": groups, "/apis/rbac.istio.io/v1alpha1": resources, "/apis/rbac.istio.io/v1alpha1/serviceroles": roles}, want: []string{file}},
		"no list":         {answers: map[string]string{"/apis": groups, "/apis/rbac.istio.io/v1": resources, "/apis/rbac.istio.io/v1/serviceroles": "403"}, warning: "no permission to list serviceroles.rbac.istio.io: objects of this retired kind are not reported"},
		"no groups":       {answers: map[string]string{"/apis": "403"}, warning: "no permission to list the API groups: objects of retired kinds are not reported"},
		"broken list":     {answers: map[string]string{"/apis": groups, "/apis/rbac.istio.io/v1": resources, "/apis/rbac.istio.io/v1/serviceroles": "500"}, fail: "list serviceroles.rbac.istio.io: "},
		"broken versions": {answers: map[string]string{"/apis": groups, "/apis/rbac.istio.io/v1": "500"}, fail: "list the API groups: "},
	} {
		t.Run(name, func(t *testing.T) {
			var warnings bytes.Buffer
			files, err := readCluster(t.Context(), connect.Options{Kubeconfig: kubeconfigOf(t, c.answers)}, &warnings)
			if c.fail == "" && err != nil || c.fail != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fail)) {
				t.Errorf("error %v, want %q", err, c.fail)
			}
			if diff := cmp.Diff(c.want, namesOf(files)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if got := warnings.String(); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
				t.Errorf("warnings %q, want %q", got, c.warning)
			}
		})
	}
}

func namesOf(files []lint.File) (names []string) {
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

// kubeconfigOf writes a kubeconfig for an API server with answers by path, and returns its path. An
// answer that is a number is the code of a failure; other paths are not found.
func kubeconfigOf(t *testing.T, answers map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := answers[r.URL.Path]
		code, err := strconv.Atoi(text)
		switch {
		case !known && r.URL.Path == "/api":
			text = `{"kind":"APIVersions","versions":["v1"]}`
		case !known:
			http.NotFound(w, r)
			return
		case err == nil:
			w.WriteHeader(code)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "a", "cluster": {"server": "` + s.URL + `"}}],
		"contexts": [{"name": "a", "context": {"cluster": "a"}}], "current-context": "a"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
