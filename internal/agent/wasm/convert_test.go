package wasm

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
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

// toStruct returns a message as JSON, with an unknown field, and its type URL.
func toStruct(t *testing.T, m proto.Message) (*structpb.Struct, string) {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	s := &structpb.Struct{}
	if err := protojson.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	s.Fields["field_of_a_later_release"] = structpb.NewBoolValue(true)
	return s, "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName())
}

func udpaStruct(t *testing.T, m proto.Message) *udpav1.TypedStruct {
	t.Helper()
	value, url := toStruct(t, m)
	return &udpav1.TypedStruct{TypeUrl: url, Value: value}
}

func xdsStruct(t *testing.T, m proto.Message) *xdsv3.TypedStruct {
	t.Helper()
	value, url := toStruct(t, m)
	return &xdsv3.TypedStruct{TypeUrl: url, Value: value}
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
	for name, test := range map[string]struct {
		sent proto.Message
		got  filter
	}{
		"HTTP":         {&httpwasmv3.Wasm{Config: plugin(server.URL+"/m", nil)}, &httpwasmv3.Wasm{}},
		"network":      {&networkwasmv3.Wasm{Config: plugin(server.URL+"/m", nil)}, &networkwasmv3.Wasm{}},
		"udpa struct":  {udpaStruct(t, &httpwasmv3.Wasm{Config: plugin(server.URL+"/m", nil)}), &httpwasmv3.Wasm{}},
		"xds struct":   {xdsStruct(t, &networkwasmv3.Wasm{Config: plugin(server.URL+"/m", nil)}), &networkwasmv3.Wasm{}},
		"empty struct": {&udpav1.TypedStruct{}, nil},
		"other struct": {udpaStruct(t, &routerv3.Router{SuppressEnvoyHeaders: true}), nil},
	} {
		got := convert(test.sent)
		if test.got == nil {
			if !got.MessageIs(test.sent) {
				t.Errorf("%s: changed to %v", name, got)
			}
			continue
		}
		if err := got.UnmarshalTo(test.got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		vm := test.got.GetConfig().GetVmConfig()
		if path := vm.GetCode().GetLocal().GetFilename(); filepath.Dir(path) != c.o.Dir {
			t.Errorf("%s: code at %q", name, path)
		}
		if v := vm.GetEnvironmentVariables().GetKeyValues(); len(v) != 1 || v["OWN"] != "1" {
			t.Errorf("%s: variables %v", name, v)
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
	invalid := &udpav1.TypedStruct{TypeUrl: "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm", Value: &structpb.Struct{
		Fields: map[string]*structpb.Value{"config": structpb.NewNumberValue(1)},
	}}
	if err := convertNow(t.Context(), c, resourceOf(t, invalid)); err == nil || !strings.Contains(err.Error(), `decode extension "ns.plugin"`) {
		t.Errorf("a TypedStruct that is no filter: %v", err)
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
