package wasm

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func resourceOf(t *testing.T, config proto.Message) *discoveryv3.Resource {
	t.Helper()
	packed, err := anypb.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := anypb.New(&corev3.TypedExtensionConfig{Name: "ns.plugin", TypedConfig: packed})
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: "ns.plugin", Resource: r}
}

func plugin(url string, change func(*wasmv3.PluginConfig)) *wasmv3.PluginConfig {
	p := &wasmv3.PluginConfig{Name: "ns.plugin", Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
		Code: &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{
			HttpUri: &corev3.HttpUri{Uri: url, Timeout: durationpb.New(10 * time.Second)}, Sha256: "nil",
		}}},
		EnvironmentVariables: &wasmv3.EnvironmentVariables{KeyValues: map[string]string{policyVariable: "Always", versionVariable: "7", "OWN": "1"}},
	}}}
	if change != nil {
		change(p)
	}
	return p
}

// convertNow converts an extension, and waits for the fetch of its module.
func convertNow(ctx context.Context, c *Cache, r *discoveryv3.Resource) error {
	fetch, err := c.Convert(r)
	if err != nil || fetch == nil {
		return err
	}
	return fetch(ctx)
}

// TestConvert tests that extensions get local files and lose the agent's variables, and that an
// unavailable module is replaced by its failure policy.
func TestConvert(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/m" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(module())
	}))
	defer server.Close()
	c := newCache(t)
	convert := func(config proto.Message) *anypb.Any {
		t.Helper()
		r := resourceOf(t, config)
		if err := convertNow(t.Context(), c, r); err != nil {
			t.Fatal(err)
		}
		var e corev3.TypedExtensionConfig
		if err := r.GetResource().UnmarshalTo(&e); err != nil || e.GetName() != "ns.plugin" {
			t.Fatalf("%v, %v", &e, err)
		}
		return e.GetTypedConfig()
	}
	for _, f := range []interface {
		proto.Message
		GetConfig() *wasmv3.PluginConfig
	}{&httpwasmv3.Wasm{Config: plugin(server.URL+"/m", nil)}, &networkwasmv3.Wasm{Config: plugin(server.URL+"/m", nil)}} {
		got := convert(f)
		proto.Reset(f)
		if err := got.UnmarshalTo(f); err != nil {
			t.Fatal(err)
		}
		vm := f.GetConfig().GetVmConfig()
		if path := vm.GetCode().GetLocal().GetFilename(); filepath.Dir(path) != c.o.Dir {
			t.Errorf("code at %q", path)
		}
		if v := vm.GetEnvironmentVariables().GetKeyValues(); len(v) != 1 || v["OWN"] != "1" {
			t.Errorf("variables %v", v)
		}
	}
	for name, test := range map[string]struct {
		change func(*wasmv3.PluginConfig)
		open   bool
	}{
		"by default":       {nil, false},
		"open, deprecated": {func(p *wasmv3.PluginConfig) { p.FailOpen = true }, true}, //nolint:staticcheck // still sent by some control planes
		"open":             {func(p *wasmv3.PluginConfig) { p.FailurePolicy = wasmv3.FailurePolicy_FAIL_OPEN }, true},
		"closed":           {func(p *wasmv3.PluginConfig) { p.FailurePolicy = wasmv3.FailurePolicy_FAIL_CLOSED }, false},
		"no pull secret": {func(p *wasmv3.PluginConfig) {
			p.GetVmConfig().EnvironmentVariables.KeyValues[secretVariable] = ""
		}, false},
	} {
		var rbac httprbacv3.RBAC
		if err := convert(&httpwasmv3.Wasm{Config: plugin(server.URL+"/none", test.change)}).UnmarshalTo(&rbac); err != nil {
			t.Fatal(err)
		}
		if open := rbac.GetRules() == nil; open != test.open {
			t.Errorf("%s: everything passes %v", name, open)
		}
	}
	router := &routerv3.Router{SuppressEnvoyHeaders: true}
	if got := convert(router); !got.MessageIs(router) {
		t.Errorf("an extension other than Wasm was changed to %v", got)
	}
	if err := convertNow(t.Context(), c, &discoveryv3.Resource{Resource: &anypb.Any{TypeUrl: "x"}}); err == nil {
		t.Error("no error for another message than an extension")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := convertNow(gone, c, resourceOf(t, &httpwasmv3.Wasm{Config: plugin(server.URL+"/m2", nil)})); err == nil {
		t.Error("an extension is converted after the context has ended")
	}
}

// TestConvertWithoutFetch tests that an extension whose module is cached is converted without a
// fetch, and that one whose module is not cached is left unchanged until its fetch.
func TestConvertWithoutFetch(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(module())
	}))
	defer server.Close()
	c := newCache(t)
	first := resourceOf(t, &httpwasmv3.Wasm{Config: plugin(server.URL, nil)})
	sent := proto.Clone(first)
	fetch, err := c.Convert(first)
	if err != nil || fetch == nil || !proto.Equal(first, sent) {
		t.Fatalf("a module that is not cached: fetch %v, error %v, changed %v", fetch != nil, err, !proto.Equal(first, sent))
	}
	if err := fetch(t.Context()); err != nil || proto.Equal(first, sent) {
		t.Fatalf("after the fetch: error %v, changed %v", err, !proto.Equal(first, sent))
	}
	second := resourceOf(t, &httpwasmv3.Wasm{Config: plugin(server.URL, nil)})
	if fetch, err := c.Convert(second); err != nil || fetch != nil || !proto.Equal(first, second) {
		t.Errorf("a cached module: fetch %v, error %v, got %v", fetch != nil, err, second)
	}
}

// TestFetchedModuleIsKept tests that an extension keeps its module if it cannot be fetched again.
// It never gets another module, and other extensions do not get it.
func TestFetchedModuleIsKept(t *testing.T) {
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(module())
	}))
	defer server.Close()
	c := newCache(t)
	runs := func(change func(*wasmv3.PluginConfig)) bool {
		t.Helper()
		r := resourceOf(t, &httpwasmv3.Wasm{Config: plugin(server.URL, change)})
		if err := convertNow(t.Context(), c, r); err != nil {
			t.Fatal(err)
		}
		var e corev3.TypedExtensionConfig
		if err := r.GetResource().UnmarshalTo(&e); err != nil {
			t.Fatal(err)
		}
		return e.GetTypedConfig().MessageIs((*httpwasmv3.Wasm)(nil))
	}
	say := func(name, value string) func(*wasmv3.PluginConfig) {
		return func(p *wasmv3.PluginConfig) { p.GetVmConfig().EnvironmentVariables.KeyValues[name] = value }
	}
	if !runs(nil) {
		t.Fatal("the module is not fetched")
	}
	away.Store(true)
	for name, change := range map[string]func(*wasmv3.PluginConfig){
		"requested again": say(versionVariable, "8"), "another pull secret": say(secretVariable, "{}"), "no pull secret any more": say(secretVariable, ""),
	} {
		if !runs(change) {
			t.Errorf("%s: the current module is lost", name)
		}
	}
	if runs(func(p *wasmv3.PluginConfig) { p.GetVmConfig().GetCode().GetRemote().Sha256 = sumOf(nil) }) {
		t.Error("the current module is kept although the checksum differs")
	}
	c.lastUsed = map[string]lastUse{"another": c.lastUsed["ns.plugin"]}
	if runs(say(versionVariable, "9")) {
		t.Error("an extension has the module of another one")
	}
}
