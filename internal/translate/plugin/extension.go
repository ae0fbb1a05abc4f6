package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"

	extensions "istio.io/api/extensions/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// What agents read and take out before Envoy sees it, and what else they know istiod by.
const (
	secretVariable  = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
	// anyChecksum stands for none: Envoy takes no empty one.
	anyChecksum = "nil"
	// noCluster is where modules come from: Envoy wants some cluster, and never asks it, since agents fetch.
	noCluster = "_"
)

// fetchTimeout bounds the fetching of a module by the agent.
const fetchTimeout = 30 * time.Second

// FetchTimeout bounds how long a listener waits for a plugin: for as long as the agent may take to find that a module cannot be had,
// and some more. Envoy then answers requests with 500 itself.
const FetchTimeout = fetchTimeout + 10*time.Second

// code is what WasmPlugin and TrafficExtension.wasm say alike.
type code interface {
	GetUrl() string
	GetSha256() string
	GetImagePullPolicy() extensions.PullPolicy
	GetImagePullSecret() string
	GetVerificationKey() string
	GetPluginConfig() *structpb.Struct
	GetPluginName() string
	GetFailStrategy() extensions.FailStrategy
	GetVmConfig() *extensions.VmConfig
	GetType() extensions.PluginType
}

func filterOf(in input) proto.Message {
	c := in.object
	spec := wasmOf(c)
	if spec == nil {
		text := config.Spec[*extensions.TrafficExtension](c).GetLua().GetInlineCode()
		return &luav3.Lua{DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}}
	}
	p := &wasmv3.PluginConfig{
		Name: c.Namespace + "." + c.Name, RootId: spec.GetPluginName(), FailurePolicy: failurePolicy(spec.GetFailStrategy()),
		Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: machine(in, spec)},
	}
	if fields := spec.GetPluginConfig(); len(fields.GetFields()) > 0 {
		p.Configuration = packed(wrapperspb.String(textOf(c, fields)))
	}
	if spec.GetType() == extensions.PluginType_NETWORK {
		return &networkwasmv3.Wasm{Config: p}
	}
	return &httpwasmv3.Wasm{Config: p}
}

// textOf writes the configuration as plugins read it: JSON, the same for equal ones.
func textOf(c *config.Config, fields *structpb.Struct) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(fields.AsMap()); err != nil {
		panic(fmt.Sprintf("configuration of %s: %v", c.Key, err)) // it was JSON when it was read
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func failurePolicy(s extensions.FailStrategy) wasmv3.FailurePolicy {
	switch s {
	case extensions.FailStrategy_FAIL_OPEN:
		return wasmv3.FailurePolicy_FAIL_OPEN
	case extensions.FailStrategy_FAIL_RELOAD:
		return wasmv3.FailurePolicy_FAIL_RELOAD
	default:
		return wasmv3.FailurePolicy_FAIL_CLOSED
	}
}

// machine is what runs the module.
func machine(in input, spec code) *wasmv3.VmConfig {
	vm := &wasmv3.VmConfig{Runtime: "envoy.wasm.runtime.v8"}
	env := &wasmv3.EnvironmentVariables{KeyValues: map[string]string{}}
	for _, v := range spec.GetVmConfig().GetEnv() {
		if v.GetValueFrom() == extensions.EnvValueSource_HOST {
			env.HostEnvKeys = append(env.HostEnvKeys, v.GetName())
		} else {
			env.KeyValues[v.GetName()] = v.GetValue()
		}
	}
	if path, local := strings.CutPrefix(spec.GetUrl(), "file://"); local {
		vm.Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{
			Local: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}},
		}}
	} else {
		vm.Code = remote(spec)
		tellAgent(env.KeyValues, in, spec)
	}
	if len(env.KeyValues)+len(env.HostEnvKeys) > 0 {
		vm.EnvironmentVariables = env
	}
	return vm
}

func remote(spec code) *corev3.AsyncDataSource {
	from := &corev3.RemoteDataSource{
		HttpUri: &corev3.HttpUri{
			Uri: address(spec), HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: noCluster}, Timeout: durationpb.New(fetchTimeout),
		},
		Sha256: spec.GetSha256(),
	}
	if from.GetSha256() == "" {
		from.Sha256 = anyChecksum
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: from}}
}

// address is where the module is. Without a scheme it is the name of an image.
func address(spec code) string {
	if strings.Contains(spec.GetUrl(), "://") {
		return spec.GetUrl()
	}
	return "oci://" + spec.GetUrl()
}

// tellAgent has the agent know how to fetch. A pull secret that is not there, or is not for these proxies, is empty: the agent then does
// as when a module cannot be had.
func tellAgent(variables map[string]string, in input, spec code) {
	if _, named := PullSecret(in.object); named {
		variables[secretVariable] = ""
		if in.secret != nil {
			variables[secretVariable], _ = login(in.secret)
		}
	}
	if fresh(spec) {
		variables[policyVariable] = extensions.PullPolicy_Always.String()
		variables[versionVariable] = fmt.Sprintf("%016x", in.object.Hash)
	}
}

// fresh says that the module is to be fetched anew with each edit of the plugin, though it may be here. By default only an image's tag
// "latest" is, as with the kubelet.
func fresh(spec code) bool {
	name, image := strings.CutPrefix(address(spec), "oci://")
	if spec.GetSha256() != "" || image && strings.Contains(name, "@") {
		return false
	}
	if policy := spec.GetImagePullPolicy(); policy != extensions.PullPolicy_UNSPECIFIED_POLICY || !image {
		return policy == extensions.PullPolicy_Always
	}
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return !tagged || tag == "latest"
}

func packed(m proto.Message) *anypb.Any { return resource.Pack(m) }
