package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

// plugin is an extension as Istio's control plane sends it for a WasmPlugin.
type plugin struct {
	name, url, checksum string
	open                bool
	// secret is the pull secret, "" for none.
	secret string
}

func (p plugin) extension(t *testing.T) *corev3.TypedExtensionConfig {
	t.Helper()
	vm := &wasmv3.VmConfig{
		VmId:    p.name,
		Runtime: "envoy.wasm.runtime.v8",
		Code: &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{
			Remote: &corev3.RemoteDataSource{
				HttpUri: &corev3.HttpUri{Uri: p.url, Timeout: durationpb.New(10 * time.Second)},
				Sha256:  p.checksum,
			},
		}},
	}
	if p.checksum == "" {
		vm.GetCode().GetRemote().Sha256 = "nil"
	}
	if p.secret != "" {
		vm.EnvironmentVariables = &wasmv3.EnvironmentVariables{
			KeyValues: map[string]string{"ISTIO_META_WASM_IMAGE_PULL_SECRET": p.secret},
		}
	}
	config := &wasmv3.PluginConfig{
		Name:          p.name,
		RootId:        p.name,
		Vm:            &wasmv3.PluginConfig_VmConfig{VmConfig: vm},
		FailurePolicy: wasmv3.FailurePolicy_FAIL_CLOSED,
	}
	if p.open {
		config.FailurePolicy = wasmv3.FailurePolicy_FAIL_OPEN
	}
	return &corev3.TypedExtensionConfig{Name: p.name, TypedConfig: pack(t, &httpwasmv3.Wasm{Config: config})}
}

// withPlugins adds the plugins' extensions to a listener, in their order, before its router.
func withPlugins(t *testing.T, l *listenerv3.Listener, plugins ...plugin) *listenerv3.Listener {
	t.Helper()
	manager := new(hcmv3.HttpConnectionManager)
	filter := l.GetFilterChains()[0].GetFilters()[0]
	if err := filter.GetTypedConfig().UnmarshalTo(manager); err != nil {
		t.Fatal(err)
	}
	var list []*hcmv3.HttpFilter
	for _, p := range plugins {
		list = append(
			list,
			&hcmv3.HttpFilter{
				Name: p.name,
				ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{
					ConfigSource: &corev3.ConfigSource{
						ConfigSourceSpecifier: &corev3.ConfigSource_Ads{
							Ads: new(corev3.AggregatedConfigSource),
						},
						ResourceApiVersion:  corev3.ApiVersion_V3,
						InitialFetchTimeout: durationpb.New(0),
					},
					TypeUrls: []string{
						"type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
						"type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
					},
				}},
			},
		)
	}
	manager.HttpFilters = append(list, manager.GetHttpFilters()...)
	filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, manager)}
	return l
}

// moduleServer serves modules as files and as images of a registry: /NAME adds the header x-wasm
// with the value NAME. Those below /secret require credentials.
func moduleServer(t *testing.T) (host string) {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch user, password, _ := r.BasicAuth(); {
		case !strings.HasPrefix(r.URL.Path, "/v2/"):
			if r.URL.Path == "/none" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(wasm.AddsHeader("x-wasm", r.URL.Path[1:]))
		case strings.Contains(r.URL.Path, "/secret/") && r.Method == http.MethodGet && (user != "u" || password != "p"):
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "authentication required", http.StatusUnauthorized)
		default:
			images.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	for path, value := range map[string]string{"/open/plugin:v1": "image", "/secret/plugin:v1": "secret"} {
		layer := static.NewLayer(wasm.AddsHeader("x-wasm", value), "application/vnd.module.wasm.content.layer.v1+wasm")
		image, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			t.Fatal(err)
		}
		reference, err := name.ParseReference(host+path, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(reference, image); err != nil {
			t.Fatal(err)
		}
	}
	return host
}

// TestWasm tests that plugins run in Envoy in their order, wherever their modules are. If one is
// unavailable, requests pass or not by its failure policy; other listeners are not affected.
func TestWasm(t *testing.T) {
	t.Parallel()
	app, host := newService(t), moduleServer(t)
	sum := sha256.Sum256(wasm.AddsHeader("x-wasm", "checked"))
	right, wrong := hex.EncodeToString(sum[:]), strings.Repeat("0", 64)
	secret := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("u:p")))
	tests := []struct {
		name    string
		plugins []plugin
		status  int
		headers []string
	}{
		{"a file", []plugin{{name: "file", url: "http://" + host + "/file"}}, 200, []string{"file"}},
		{
			"a file with its checksum",
			[]plugin{{name: "checked", url: "http://" + host + "/checked", checksum: right}},
			200,
			[]string{"checked"},
		},
		{"an image", []plugin{{name: "image", url: "oci://" + host + "/open/plugin:v1"}}, 200, []string{"image"}},
		{
			"an image behind a password",
			[]plugin{{name: "secret", url: "oci://" + host + "/secret/plugin:v1", secret: secret}},
			200,
			[]string{"secret"},
		},
		// Filters process responses in reverse order.
		{
			"three in their order",
			[]plugin{
				{
					name: "a",
					url:  "http://" + host + "/first",
				},
				{name: "b", url: "http://" + host + "/second"},
				{name: "c", url: "oci://" + host + "/open/plugin:v1"},
			},
			200,
			[]string{"image", "second", "first"},
		},
		{
			"not its checksum, closed",
			[]plugin{{name: "wrong", url: "http://" + host + "/wrong", checksum: wrong}},
			403,
			nil,
		},
		{
			"not its checksum, open",
			[]plugin{{name: "wrong-open", url: "http://" + host + "/wrong-open", checksum: wrong, open: true}},
			200,
			nil,
		},
		{"not there, closed", []plugin{{name: "none", url: "http://" + host + "/none"}}, 403, nil},
		{
			"not there, open, before another",
			[]plugin{
				{name: "none-open", url: "http://" + host + "/none", open: true},
				{name: "d", url: "http://" + host + "/other"},
			},
			200,
			[]string{"other"},
		},
		{"no password", []plugin{{name: "refused", url: "oci://" + host + "/secret/plugin:v1"}}, 403, nil},
	}
	p := serving.FreePorts(t, len(tests))
	resources := []proto.Message{cluster("app", "127.0.0.1", app.port)}
	for i, test := range tests {
		resources = append(
			resources,
			withPlugins(
				t,
				listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", p[i], "in", "app"),
				test.plugins...),
		)
		for _, one := range test.plugins {
			resources = append(resources, one.extension(t))
		}
	}
	a := startAgent(t, settings{
		config: map[string]any{"discoveryAddress": localControlPlane(t, resources...)},
		env:    []string{"WASM_INSECURE_REGISTRIES=" + host, "WASM_HTTP_REQUEST_MAX_RETRIES=1"},
	})
	a.awaitReady(t)
	for i, test := range tests {
		serving.Eventually(t, patience, test.name, func() error {
			got := get(p[i], "/")
			if err := want(got, test.status, ""); err != nil {
				return err
			}
			if diff := cmp.Diff(test.headers, got.header.Values("x-wasm")); diff != "" {
				return fmt.Errorf("x-wasm (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	check(
		t,
		want(
			get(a.status, "/stats/prometheus"),
			200,
			`istio_agent_wasm_config_conversion_count{result="fetch_failure"} 5`,
		),
	)
}

// TestSlowModule tests that changes of other plugins apply while a module does not arrive, and that
// its plugin runs when it is there.
func TestSlowModule(t *testing.T) {
	t.Parallel()
	app, released := newService(t), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-released
		}
		_, _ = w.Write(wasm.AddsHeader("x-wasm", r.URL.Path[1:]))
	}))
	t.Cleanup(server.Close)
	p := serving.FreePorts(t, 3)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p[2]))
	if err != nil {
		t.Fatal(err)
	}
	// with returns the resources with one listener for each of the modules.
	with := func(modules ...string) []proto.Message {
		resources := []proto.Message{cluster("app", "127.0.0.1", app.port)}
		for i, module := range modules {
			one := plugin{name: fmt.Sprint("plugin-", i), url: server.URL + "/" + module}
			inbound := listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", p[i], "in", "app")
			resources = append(resources, withPlugins(t, inbound, one), one.extension(t))
		}
		return resources
	}
	answers := func(port int, module string) {
		t.Helper()
		serving.Eventually(t, patience, module, func() error {
			got := get(port, "/")
			if err := want(got, 200, ""); err != nil {
				return err
			}
			if diff := cmp.Diff([]string{module}, got.header.Values("x-wasm")); diff != "" {
				return fmt.Errorf("x-wasm (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	plane := newControlPlane(t, l, with("first")...)
	a := startAgent(t, settings{config: map[string]any{"discoveryAddress": l.Addr().String()}})
	a.awaitReady(t)
	answers(p[0], "first")
	plane.set(with("second", "slow")...)
	answers(p[0], "second")
	plane.set(with("third", "slow")...)
	answers(p[0], "third")
	if got := get(p[1], "/"); got.err == nil && got.status == 200 {
		t.Error("a listener is active without its plugin")
	}
	close(released)
	answers(p[1], "slow")
}
