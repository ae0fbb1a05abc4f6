package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

const (
	pullSecret = `{apiVersion: v1, kind: Secret, metadata: {name: %[1]s, namespace: $NS}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{"auths": {"%[2]s": {}}}'}}`
	pullPlugin = `{apiVersion: extensions.istio.io/v1alpha1, kind: WasmPlugin, metadata: {name: %[1]s, namespace: $NS}, spec: {url: "oci://registry.example.com/a:v1", imagePullSecret: %[2]s}}`
)

// TestPullSecretsOnTheWire: a plugin is sent together with the Secret that it names, never before
// it, also by a control plane that has just started. Changes of the Secret are sent. A plugin whose
// Secret does not exist is sent without it.
func TestPullSecretsOnTheWire(t *testing.T) {
	loopback := func(o *discovery.Options) { o.SecretsPlainText = "loopback" }
	p := launch(t, "{}", loopback)
	follow := func(p *controlPlane, namespace string, names ...string) *sidecar.Proxy {
		x := p.connect("web", namespace, "10.9.0.1")
		for _, name := range names {
			x.Subscribe(api.ExtensionType, extensionName(namespace, name))
		}
		return x
	}
	x := follow(p, p.namespace, "early", "late", "without")
	p.Eventually("it is connected", has(x, api.ClusterType, "BlackHoleCluster", true))
	x.SentResources()

	p.apply(fmt.Sprintf(pullSecret, "early", "one"))
	p.apply(fmt.Sprintf(pullPlugin, "early", "early"))
	p.Eventually("a plugin, and its Secret with it", pulls(x, p.namespace, "early", `{"auths": {"one": {}}}`))
	if n := x.Count("ECDS " + extensionName(p.namespace, "early")); n != 1 {
		t.Errorf("it was sent %d times, the first without its Secret", n)
	}
	p.apply(fmt.Sprintf(pullSecret, "early", "two"))
	p.Eventually("another content of the Secret", pulls(x, p.namespace, "early", `{"auths": {"two": {}}}`))

	p.apply(fmt.Sprintf(pullPlugin, "without", "none"))
	p.Eventually("a plugin whose Secret does not exist", pulls(x, p.namespace, "without", ""))
	p.Eventually("and a Problem is reported", func() error {
		if !strings.Contains(p.LogText(), `there is no Secret "none" in namespace `+p.namespace) {
			return errors.New("not yet")
		}
		return nil
	})
	p.apply(fmt.Sprintf(pullSecret, "none", "three"))
	p.Eventually("the added Secret", pulls(x, p.namespace, "without", `{"auths": {"three": {}}}`))

	again := launch(t, "{}", loopback)
	y := follow(again, p.namespace, "early")
	again.Eventually("the Secret that exists at the start", pulls(y, p.namespace, "early", `{"auths": {"two": {}}}`))
	if n := y.Count("ECDS " + extensionName(p.namespace, "early")); n != 1 {
		t.Errorf("a control plane that was just started sent it %d times, the first without its Secret", n)
	}
}

func extensionName(namespace, plugin string) string {
	return "extensions.istio.io/trafficextension/" + namespace + "." + plugin + "~istio-translated-wasmplugin"
}

// pulls checks the credentials that a sidecar's agent is sent for a plugin's image.
func pulls(x *sidecar.Proxy, namespace, plugin, want string) func() error {
	return func() error {
		var e corev3.TypedExtensionConfig
		var w wasmv3.Wasm
		if !x.Read(api.ExtensionType, extensionName(namespace, plugin), &e) {
			return errors.New("it is not there")
		}
		if err := e.GetTypedConfig().UnmarshalTo(&w); err != nil {
			return err
		}
		got, there := w.GetConfig().GetVmConfig().GetEnvironmentVariables().GetKeyValues()["ISTIO_META_WASM_IMAGE_PULL_SECRET"]
		if !there || got != want {
			return fmt.Errorf("by %q (%v), want %q", got, there, want)
		}
		return nil
	}
}
