package debug

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestPullSecretsAreNotShown: no page shows the credentials for the image of a module; the rest of
// the extension is shown.
func TestPullSecretsAreNotShown(t *testing.T) {
	extension := func(variables map[string]string, filter func(*wasmv3.PluginConfig) proto.Message) *resource.Resource {
		packed, err := anypb.New(filter(&wasmv3.PluginConfig{Name: "shop.plugin", Vm: &wasmv3.PluginConfig_VmConfig{
			VmConfig: &wasmv3.VmConfig{EnvironmentVariables: &wasmv3.EnvironmentVariables{KeyValues: variables}},
		}}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := resource.Encode(
			"plugin",
			api.ExtensionType,
			&corev3.TypedExtensionConfig{Name: "plugin", TypedConfig: packed},
		)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, filter := range map[string]func(*wasmv3.PluginConfig) proto.Message{
		"http":    func(c *wasmv3.PluginConfig) proto.Message { return &httpwasmv3.Wasm{Config: c} },
		"network": func(c *wasmv3.PluginConfig) proto.Message { return &networkwasmv3.Wasm{Config: c} },
	} {
		secret := extension(map[string]string{pullSecretVariable: "password", "A": "for-the-module"}, filter)
		got := redactSecrets(secret).Value
		for text, there := range map[string]bool{"password": false, redacted: true, "for-the-module": true, "shop.plugin": true} {
			if bytes.Contains(got, []byte(text)) != there {
				t.Errorf("%s: %q is shown: %v", name, text, !there)
			}
		}
		plain := extension(map[string]string{"A": "b"}, filter)
		if !bytes.Equal(redactSecrets(plain).Value, plain.Body) {
			t.Errorf("%s: an extension without a secret is not shown as it is", name)
		}
	}
	unknown := resource.FromBytes("x", api.ExtensionType, []byte{0xff}) // cannot be read
	if len(redactSecrets(unknown).Value) != 0 {
		t.Error("what cannot be read is shown")
	}
}
