package plugin

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const pulled = `---
kind: WasmPlugin
metadata: {name: own, namespace: shop}
spec: {url: "oci://registry.example.com/a:v1", imagePullSecret: login, selector: {matchLabels: {app: web}}}
---
kind: WasmPlugin
metadata: {name: all, namespace: istio-system}
spec: {url: "oci://registry.example.com/a:v1", imagePullSecret: login}
`

func loginOf(namespace, password string) string {
	return fmt.Sprintf("---\nkind: Secret\nmetadata: {name: login, namespace: %s}\ntype: kubernetes.io/dockerconfigjson\ndata: {.dockerconfigjson: %s}\n",
		namespace, base64.StdEncoding.EncodeToString(fmt.Appendf(
			nil,
			`{"auths": {"registry.example.com": {"password": %q}}}`,
			password,
		)))
}

// TestReceiversOfPullSecrets: pull secrets are sent only to authenticated proxies to which the
// plugin applies, whatever other proxies were sent before.
func TestReceiversOfPullSecrets(t *testing.T) {
	m := fixture.New(
		t,
		[]byte(
			pulled+loginOf("shop", "of-the-shop")+loginOf("istio-system", "of-the-mesh")+loginOf("other", "of-others"),
		),
		nil,
	)
	own, all := nameOf(config.Key{
		Kind:      api.WasmPlugin,
		Namespace: "shop",
		Name:      "own",
	}), nameOf(config.Key{Kind: api.WasmPlugin, Namespace: "istio-system", Name: "all"})
	g := NewGenerator()
	for range 2 {
		for proxy, want := range map[string][2]string{ // of own and all
			"{namespace: shop, labels: {app: web}, account: a}":  {"of-the-shop", "of-the-mesh"},
			"{namespace: shop, labels: {app: db}, account: a}":   {"none", "of-the-mesh"},
			"{namespace: other, labels: {app: web}, account: a}": {"none", "of-the-mesh"},
			"{namespace: shop, labels: {app: web}}":              {"", ""},
		} {
			v := m.View(fixture.Proxy(t, []byte(proxy)))
			v = view.Build(v.Snapshot, Scope(v.Key))
			for i, name := range []string{own, all} {
				r := g.Named(v, name)
				if (r == nil) != (want[i] == "none") {
					t.Errorf("%s: %s is sent: %v", proxy, name, r != nil)
				}
				if r == nil {
					continue
				}
				for _, password := range []string{"of-the-shop", "of-the-mesh", "of-others"} {
					if got := strings.Contains(string(r.Body), password); got != (password == want[i]) {
						t.Errorf("%s: %s contains the password %s: %v", proxy, name, password, got)
					}
				}
			}
		}
	}
}

// TestPullSecretsRotate: a Secret that is added, changed or deleted affects only proxies whose
// plugin names it.
func TestPullSecretsRotate(t *testing.T) {
	m := fixture.New(t, []byte(pulled), nil)
	p := fixture.Proxy(t, []byte("{namespace: shop, labels: {app: web}, account: a}"))
	g := NewGenerator()
	name := nameOf(config.Key{Kind: api.WasmPlugin, Namespace: "shop", Name: "own"})
	for _, step := range []struct {
		change  func() (*snapshot.Snapshot, snapshot.Delta)
		touched bool
		want    string
	}{
		{func() (*snapshot.Snapshot, snapshot.Delta) { return m.Apply(t, loginOf("shop", "first")) }, true, "first"},
		{func() (*snapshot.Snapshot, snapshot.Delta) { return m.Apply(t, loginOf("shop", "second")) }, true, "second"},
		{func() (*snapshot.Snapshot, snapshot.Delta) { return m.Apply(t, loginOf("other", "third")) }, false, "second"},
		{func() (*snapshot.Snapshot, snapshot.Delta) { return m.Delete(t, loginOf("shop", "second")) }, true, ""},
	} {
		v := m.View(p)
		_, d := step.change()
		if got := Touched(v, m.Snapshot(), d); got != step.touched {
			t.Errorf("%s: touched %v", step.want, got)
		}
		body := string(g.Named(m.View(p), name).Body)
		for _, password := range []string{"first", "second", "third"} {
			if strings.Contains(body, password) != (password == step.want) {
				t.Errorf("the plugin has not just %q in it", step.want)
			}
		}
	}
}
