package plugin

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

// TestPrivateRegistry: a module is pulled from a registry that requires a password, which the
// plugin's pull secret contains. A changed password is sent to the agent, and no other component
// can read it.
func TestPrivateRegistry(t *testing.T) {
	const first, second, wrong = "first-password", "second-password", "wrong-password"
	images := wasm.StartRegistry(t, nil, first)
	images.Push("/shop/filter:v1", wasm.AddsHeader("x-wasm", "one"))
	g := &gateway{Edge: gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--secretsPlainText", "loopback"}}), port: serving.FreePort(t), client: http.Client{Transport: new(http.Transport)}}
	defer g.client.CloseIdleConnections()
	g.Write("routes.yaml", fmt.Sprintf(routes, g.port))
	g.eventually(t, "without plugins", 200)
	secret := func(password string) {
		g.Write("secret.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: images, namespace: istio-system}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '%s'}
`, images.Login(password)))
	}
	plugin := func(kind, image string) {
		code := fmt.Sprintf("url: oci://%s%s, imagePullPolicy: Always, imagePullSecret: images", images.Host, image)
		if kind == "TrafficExtension" {
			code = "wasm: {" + code + "}"
		}
		g.Write("plugin.yaml", fmt.Sprintf("apiVersion: extensions.istio.io/v1alpha1\nkind: %s\nmetadata: {name: private, namespace: istio-system}\nspec: {%s}\n", kind, code))
	}

	plugin("WasmPlugin", "/shop/filter:v1")
	g.eventually(t, "a plugin whose pull secret is not there", 403)
	secret(wrong)
	gatewayenv.Eventually(t, "a wrong password is shown to the registry", func() error {
		if images.Refused() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	g.eventually(t, "a plugin with a wrong pull secret", 403)
	secret(first)
	g.eventually(t, "a plugin with its pull secret", 200, "one")

	// The password changes, at the registry first. The current module is kept while it cannot be
	// pulled again.
	images.SetPassword(second)
	images.Push("/shop/filter:v2", wasm.AddsHeader("x-wasm", "two"))
	before := images.Refused()
	secret(wrong)
	gatewayenv.Eventually(t, "the agent has the other secret", func() error {
		if images.Refused() == before {
			return errors.New("the registry has not been asked")
		}
		return g.says(g.request(t), 200, "one")
	})
	secret(second)
	plugin("WasmPlugin", "/shop/filter:v2")
	g.eventually(t, "another module, by the new password", 200, "two")
	g.Write("plugin.yaml", "")
	g.eventually(t, "without plugins again", 200)
	plugin("TrafficExtension", "/shop/filter:v2")
	g.eventually(t, "a TrafficExtension", 200, "two")

	nodes := "gateway.istio-system"
	shown := map[string]string{}
	for _, address := range []string{
		"http://" + g.Pages + "/debug/config_dump?proxyID=" + nodes, "http://" + g.Pages + "/debug/ecdsz?proxyID=" + nodes, "http://" + g.Pages + "/debug/configz",
		"http://" + g.Admin + "/config_dump?include_eds", "http://" + g.Admin + "/stats",
	} {
		page, err := serving.Page(address)
		if err != nil {
			t.Fatal(err)
		}
		shown[address] = page
	}
	logs, err := filepath.Glob(filepath.Join(g.Logs, "*.log"))
	if err != nil || len(logs) < 2 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		shown[log] = string(text)
	}
	for where, text := range shown {
		for _, password := range []string{first, second, wrong} {
			if strings.Contains(text, password) {
				t.Errorf("the password %s is readable at %s", password, where)
			}
		}
	}
	if page := shown["http://"+g.Pages+"/debug/config_dump?proxyID="+nodes]; !strings.Contains(page, "[redacted]") {
		t.Error("the page does not show that there is a pull secret: the test is not effective")
	}
}
