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

// Environment variables that agents read and remove before Envoy sees the config, and other values
// that istiod uses.
const (
	secretVariable  = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
	// anyChecksum means no checksum, because Envoy refuses an empty one.
	anyChecksum = "nil"
	// noCluster is the cluster to download modules from. Envoy requires one and never uses it,
	// because agents download.
	noCluster = "_"
)

// downloadTimeout limits the download of a module by the agent.
const downloadTimeout = 30 * time.Second

// FetchTimeout limits how long a listener waits for a plugin: as long as the agent may need to find
// that a module is unavailable, and a margin. Envoy then answers requests with 500.
const FetchTimeout = downloadTimeout + 10*time.Second

// wasmSpec is the common interface of WasmPlugin and TrafficExtension.wasm.
type wasmSpec interface {
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

// filter returns the config of a plugin's Envoy filter: Lua, or Wasm for HTTP, or Wasm for
// connections if its type is NETWORK. If the plugin is replaced, it returns the replacement.
func (in input) filter() proto.Message {
	c := in.object
	spec := wasmOf(c)
	if in.replaced {
		return replacement(spec)
	}
	if spec == nil {
		text := config.Spec[*extensions.TrafficExtension](c).GetLua().GetInlineCode()
		return &luav3.Lua{
			DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
		}
	}
	p := &wasmv3.PluginConfig{
		Name:          c.Namespace + "." + c.Name,
		RootId:        spec.GetPluginName(),
		FailurePolicy: failurePolicy(spec.GetFailStrategy()),
		Vm:            &wasmv3.PluginConfig_VmConfig{VmConfig: newVM(in, spec)},
	}
	if fields := spec.GetPluginConfig(); len(fields.GetFields()) > 0 {
		p.Configuration = packAny(wrapperspb.String(encodeConfig(c, fields)))
	}
	if spec.GetType() == extensions.PluginType_NETWORK {
		return &networkwasmv3.Wasm{Config: p}
	}
	return &httpwasmv3.Wasm{Config: p}
}

// encodeConfig returns fields as JSON text, in which plugins read their configuration. Equal fields
// have equal texts. c is only used in the message of a panic.
func encodeConfig(c *config.Config, fields *structpb.Struct) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(fields.AsMap()); err != nil {
		panic(fmt.Sprintf("configuration of %s: %v", c.Key, err)) // It was parsed from JSON.
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// failurePolicy returns Envoy's policy for a strategy. The default, and any unknown strategy, is
// FAIL_CLOSED.
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

// newVM returns the configuration of the VM that runs the module: a local file ("file://"), or
// remote code with the variables by which the agent fetches it. The plugin's own variables are
// values, or names of variables that the proxy's process has.
func newVM(in input, spec wasmSpec) *wasmv3.VmConfig {
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
		vm.Code = remoteModule(spec)
		setAgentVariables(env.KeyValues, in, spec)
	}
	if len(env.KeyValues)+len(env.HostEnvKeys) > 0 {
		vm.EnvironmentVariables = env
	}
	return vm
}

// remoteModule returns the source of a module that the agent downloads. The cluster, and the
// checksum if the object has none, are placeholders, because Envoy requires them.
func remoteModule(spec wasmSpec) *corev3.AsyncDataSource {
	from := &corev3.RemoteDataSource{
		HttpUri: &corev3.HttpUri{
			Uri: moduleURL(spec), HttpUpstreamType: &corev3.HttpUri_Cluster{
				Cluster: noCluster,
			}, Timeout: durationpb.New(downloadTimeout),
		},
		Sha256: spec.GetSha256(),
	}
	if from.GetSha256() == "" {
		from.Sha256 = anyChecksum
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: from}}
}

// moduleURL returns the URL of the module. Without a scheme it is an image, so "oci://" is added.
func moduleURL(spec wasmSpec) string {
	if strings.Contains(spec.GetUrl(), "://") {
		return spec.GetUrl()
	}
	return "oci://" + spec.GetUrl()
}

// setAgentVariables adds to variables the entries from which the agent learns how to download the
// module. They are the content of the pull secret, if the plugin names one, and if alwaysPulls, the
// policy Always with the object's hash. If the pull secret is missing, unusable, or denied to these
// proxies, its variable is empty. The agent then handles the module as unavailable.
func setAgentVariables(variables map[string]string, in input, spec wasmSpec) {
	if _, named := PullSecret(in.object); named {
		variables[secretVariable] = ""
		if in.secret != nil {
			variables[secretVariable], _ = registryConfig(in.secret)
		}
	}
	if alwaysPulls(spec) {
		variables[policyVariable] = extensions.PullPolicy_Always.String()
		variables[versionVariable] = fmt.Sprintf("%016x", in.object.Hash)
	}
}

// alwaysPulls reports whether the agent downloads the module again after each edit of the plugin.
// It never does with a checksum or digest. Otherwise the imagePullPolicy decides; by default only
// images with the tag "latest", or without a tag, are downloaded again, as with the kubelet.
func alwaysPulls(spec wasmSpec) bool {
	name, image := strings.CutPrefix(moduleURL(spec), "oci://")
	if spec.GetSha256() != "" || image && strings.Contains(name, "@") {
		return false
	}
	if policy := spec.GetImagePullPolicy(); policy != extensions.PullPolicy_UNSPECIFIED_POLICY || !image {
		return policy == extensions.PullPolicy_Always
	}
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	return !tagged || tag == "latest"
}

// packAny returns m packed in an Any. It panics if m cannot be encoded.
func packAny(m proto.Message) *anypb.Any { return resource.Pack(m) }
