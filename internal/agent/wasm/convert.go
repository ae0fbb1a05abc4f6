package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Variables of a plugin that are for the agent, as Istio's control plane names them.
const (
	forAgent        = "ISTIO_META_"
	secretVariable  = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
)

// anyChecksum is what Istio's control plane sends where the user gave none: Envoy does not take an empty one.
const anyChecksum = "nil"

// Statistics of the filters that stand in for modules that cannot be had, as Istio's users know them.
const (
	allowPrefix = "wasm-default-allow"
	denyPrefix  = "wasm-default-deny"
)

// filter is a Wasm filter for HTTP or for connections.
type filter interface {
	proto.Message
	GetConfig() *wasmv3.PluginConfig
}

// Convert replaces a remote Wasm module in an extension by a local file. What is no Wasm module, or a local one, stays as it
// is. The error is of a resource that cannot be read.
func (c *Cache) Convert(ctx context.Context, r *discoveryv3.Resource) error {
	var extension corev3.TypedExtensionConfig
	if err := r.GetResource().UnmarshalTo(&extension); err != nil {
		c.o.Metrics.conversions.WithLabelValues("unmarshal_failure").Inc()
		return fmt.Errorf("read an extension: %w", err)
	}
	f, stand := filterOf(extension.GetTypedConfig())
	if f == nil {
		c.o.Metrics.conversions.WithLabelValues("no_remote_load").Inc()
		return nil
	}
	if err := extension.GetTypedConfig().UnmarshalTo(f); err != nil {
		c.o.Metrics.conversions.WithLabelValues("unmarshal_failure").Inc()
		return fmt.Errorf("read extension %q: %w", extension.GetName(), err)
	}
	vm := f.GetConfig().GetVmConfig()
	if vm.GetCode().GetRemote() == nil {
		c.o.Metrics.conversions.WithLabelValues("no_remote_load").Inc()
		return nil
	}
	var out proto.Message = f
	if err := c.localise(ctx, extension.GetName(), vm); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		open := failsOpen(f.GetConfig())
		c.o.Metrics.conversions.WithLabelValues("fetch_failure").Inc()
		c.o.Log.Error("a Wasm plugin is not there", "plugin", extension.GetName(), "error", err, "all_requests_pass", open)
		out = stand(open)
	} else {
		c.o.Metrics.conversions.WithLabelValues("success").Inc()
	}
	return replace(r, &extension, out)
}

func replace(r *discoveryv3.Resource, extension *corev3.TypedExtensionConfig, by proto.Message) error {
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

// filterOf gives an empty filter of the configuration's kind, and what stands in for it; nil if it is no Wasm.
func filterOf(config *anypb.Any) (filter, func(open bool) proto.Message) {
	switch {
	case config.MessageIs((*httpwasmv3.Wasm)(nil)):
		return &httpwasmv3.Wasm{}, func(open bool) proto.Message {
			if open {
				return &httprbacv3.RBAC{RulesStatPrefix: allowPrefix}
			}
			return &httprbacv3.RBAC{Rules: &rbacv3.RBAC{}, RulesStatPrefix: denyPrefix}
		}
	case config.MessageIs((*networkwasmv3.Wasm)(nil)):
		return &networkwasmv3.Wasm{}, func(open bool) proto.Message {
			if open {
				return &networkrbacv3.RBAC{StatPrefix: allowPrefix}
			}
			return &networkrbacv3.RBAC{Rules: &rbacv3.RBAC{}, StatPrefix: denyPrefix}
		}
	default:
		return nil, nil
	}
}

// failsOpen is what the plugin's failure strategy says (WasmPlugin.failStrategy).
func failsOpen(p *wasmv3.PluginConfig) bool {
	if policy := p.GetFailurePolicy(); policy != wasmv3.FailurePolicy_UNSPECIFIED {
		return policy == wasmv3.FailurePolicy_FAIL_OPEN
	}
	return p.GetFailOpen() //nolint:staticcheck // control planes still say it that way
}

var errNoSecret = errors.New("the control plane gave no pull secret for it: there is none, or this proxy has not shown it who it is")

// localise fetches the module of an extension's virtual machine. What is in its environment for the agent is taken out of it.
func (c *Cache) localise(ctx context.Context, name string, vm *wasmv3.VmConfig) error {
	remote := vm.GetCode().GetRemote()
	m := Module{URL: remote.GetHttpUri().GetUri(), Checksum: remote.GetSha256(), Timeout: remote.GetHttpUri().GetTimeout().AsDuration()}
	if m.Checksum == anyChecksum {
		m.Checksum = ""
	}
	variables := vm.GetEnvironmentVariables().GetKeyValues()
	secret, hasSecret := variables[secretVariable]
	m.PullSecret, m.Fresh, m.Version = []byte(secret), variables[policyVariable] == "Always", variables[versionVariable]
	for name := range variables {
		if strings.HasPrefix(name, forAgent) {
			delete(variables, name)
		}
	}
	if len(variables) == 0 && len(vm.GetEnvironmentVariables().GetHostEnvKeys()) == 0 {
		vm.EnvironmentVariables = nil
	}
	var path string
	err := errNoSecret
	if !hasSecret || secret != "" {
		path, err = c.File(ctx, m)
	}
	if err == nil {
		c.note(name, m, path)
	} else if path = c.before(name, m); path == "" || ctx.Err() != nil {
		return err
	} else {
		c.o.Log.Warn("a Wasm module could not be fetched anew, and stays as it is", "plugin", name, "error", err)
	}
	vm.Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{
		Local: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}},
	}}
	return nil
}
