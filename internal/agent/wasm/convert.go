package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Environment variables of a plugin that are for the agent, as Istio's control plane names them.
const (
	agentPrefix     = "ISTIO_META_"
	secretVariable  = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
)

// anyChecksum is what Istio's control plane sends if the user set no checksum, because Envoy
// rejects an empty one.
const anyChecksum = "nil"

// Convert replaces the remote Wasm module in an extension, in place, by a local file. Other
// extensions, and extensions with a local module, are unchanged. If the module cannot be fetched
// and no earlier file of it exists, the filter is replaced by an RBAC filter that allows or denies
// all traffic, by the plugin's failure policy.
//
// Convert does not wait. If the module must be fetched first, it leaves r unchanged and returns a
// function that fetches the module and then converts r; that function fails if its context ends.
// Otherwise fetch is nil. Convert returns an error if the resource cannot be decoded.
func (c *Cache) Convert(r *discoveryv3.Resource) (fetch func(context.Context) error, err error) {
	var extension corev3.TypedExtensionConfig
	if err := r.GetResource().UnmarshalTo(&extension); err != nil {
		c.o.Metrics.conversions.WithLabelValues("unmarshal_failure").Inc()
		return nil, fmt.Errorf("decode extension: %w", err)
	}
	f, fallback, err := decodeFilter(extension.GetTypedConfig())
	if err != nil {
		c.o.Metrics.conversions.WithLabelValues("unmarshal_failure").Inc()
		return nil, fmt.Errorf("decode extension %q: %w", extension.GetName(), err)
	}
	if f == nil || f.GetConfig().GetVmConfig().GetCode().GetRemote() == nil {
		c.o.Metrics.conversions.WithLabelValues("no_remote_load").Inc()
		return nil, nil
	}
	one := &conversion{cache: c, resource: r, extension: &extension, filter: f, fallback: fallback}
	return one.start()
}

// conversion is an extension whose remote module is replaced.
type conversion struct {
	cache     *Cache
	resource  *discoveryv3.Resource
	extension *corev3.TypedExtensionConfig
	filter    filter
	fallback  func(open bool) proto.Message
}

// start converts the extension if its module is cached or cannot be fetched for lack of a pull
// secret. Otherwise it returns the function that fetches the module and converts the extension.
func (v *conversion) start() (fetch func(context.Context) error, err error) {
	m, err := takeModule(v.filter.GetConfig().GetVmConfig())
	if err != nil {
		return nil, v.finish(m, "", err)
	}
	if path, ok := v.cache.lookup(m.cacheKey(), m); ok {
		v.cache.o.Metrics.lookups.WithLabelValues("true").Inc()
		return nil, v.finish(m, path, nil)
	}
	return func(ctx context.Context) error {
		path, err := v.cache.FilePath(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return v.finish(m, path, err)
	}, nil
}

// finish replaces the extension's module m in v.resource by the file at path, and records its use.
// If failed is not nil, it uses the last file of the extension with the same URL and checksum.
// Without one it replaces the filter by the failure policy. It logs failures, counts the result,
// and returns an error only if the result cannot be encoded.
func (v *conversion) finish(m Module, path string, failed error) error {
	c, name := v.cache, v.extension.GetName()
	if failed == nil {
		c.recordUse(name, m, path)
	} else if path = c.lastFile(name, m); path != "" {
		c.o.Log.Warn("cannot fetch Wasm module, keeping the current one", "plugin", name, "error", failed)
	}
	var out proto.Message = v.filter
	if path == "" {
		open := failsOpen(v.filter.GetConfig())
		c.o.Metrics.conversions.WithLabelValues("fetch_failure").Inc()
		c.o.Log.Error("cannot fetch Wasm module, replacing the plugin by its failure policy",
			"plugin", name, "error", failed, "fail_open", open)
		out = v.fallback(open)
	} else {
		c.o.Metrics.conversions.WithLabelValues("success").Inc()
		v.filter.GetConfig().GetVmConfig().Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{
			Local: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}},
		}}
	}
	return replaceConfig(v.resource, v.extension, out)
}

// replaceConfig sets extension.TypedConfig to by, and r.Resource to the encoded extension. It
// returns an error if one of them cannot be encoded.
func replaceConfig(r *discoveryv3.Resource, extension *corev3.TypedExtensionConfig, by proto.Message) error {
	packed, err := anypb.New(by)
	if err != nil {
		return fmt.Errorf("encode extension %q: %w", extension.GetName(), err)
	}
	extension.TypedConfig = packed
	if r.Resource, err = anypb.New(extension); err != nil {
		return fmt.Errorf("encode extension %q: %w", extension.GetName(), err)
	}
	return nil
}

// failsOpen reports whether the plugin's failure policy is FAIL_OPEN (WasmPlugin.failStrategy).
// Without a policy, the older field FailOpen decides.
func failsOpen(p *wasmv3.PluginConfig) bool {
	if policy := p.GetFailurePolicy(); policy != wasmv3.FailurePolicy_UNSPECIFIED {
		return policy == wasmv3.FailurePolicy_FAIL_OPEN
	}
	return p.GetFailOpen() //nolint:staticcheck // still sent by some control planes
}

var errNoSecret = errors.New(
	"the control plane sent no pull secret: it does not exist, or this proxy is not authenticated")

// takeModule returns the remote module of vm, without a checksum if that is anyChecksum. It removes
// the agent's variables (agentPrefix) from the VM's environment, and an environment that is then
// empty. It returns errNoSecret with the module if the variable of the pull secret is set but
// empty.
func takeModule(vm *wasmv3.VmConfig) (Module, error) {
	remote := vm.GetCode().GetRemote()
	m := Module{
		URL: remote.GetHttpUri().GetUri(), Checksum: remote.GetSha256(),
		Timeout: remote.GetHttpUri().GetTimeout().AsDuration(),
	}
	if m.Checksum == anyChecksum {
		m.Checksum = ""
	}
	variables := vm.GetEnvironmentVariables().GetKeyValues()
	secret, hasSecret := variables[secretVariable]
	m.PullSecret, m.AlwaysFetch = []byte(secret), variables[policyVariable] == "Always"
	m.Version = variables[versionVariable]
	for name := range variables {
		if strings.HasPrefix(name, agentPrefix) {
			delete(variables, name)
		}
	}
	if len(variables) == 0 && len(vm.GetEnvironmentVariables().GetHostEnvKeys()) == 0 {
		vm.EnvironmentVariables = nil
	}
	if hasSecret && secret == "" {
		return m, errNoSecret
	}
	return m, nil
}
