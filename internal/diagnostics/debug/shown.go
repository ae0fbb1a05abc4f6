package debug

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// redacted replaces secret values.
const redacted = "[redacted]"

// pullSecretVariable is the environment variable in which agents receive the pull secret for the
// image of a Wasm module.
const pullSecretVariable = "ISTIO_META_WASM_IMAGE_PULL_SECRET"

// redactSecrets returns a resource without private keys and pull secrets. If a resource that may
// contain secrets cannot be decoded, only its type URL is returned. Types other than secrets and
// extensions are returned unchanged.
func redactSecrets(r *resource.Resource) *anypb.Any {
	var m proto.Message
	switch r.TypeURL {
	case api.SecretType:
		m = shownSecret(r.Body)
	case api.ExtensionType:
		m = shownExtension(r.Body)
	default:
		return &anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}
	}
	if m == nil {
		return &anypb.Any{TypeUrl: r.TypeURL}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		b = nil
	}
	return &anypb.Any{TypeUrl: r.TypeURL, Value: b}
}

// shownSecret returns a Secret with redacted private keys, passwords, session ticket keys and
// generic secrets. It returns nil if the body cannot be decoded. Trusted certificates are kept.
func shownSecret(body []byte) proto.Message {
	s := new(tlsv3.Secret)
	if proto.Unmarshal(body, s) != nil {
		return nil
	}
	hidden := &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(redacted)}}
	switch t := s.Type.(type) {
	case *tlsv3.Secret_TlsCertificate:
		if t.TlsCertificate.PrivateKey != nil {
			t.TlsCertificate.PrivateKey = hidden
		}
		if t.TlsCertificate.Pkcs12 != nil {
			t.TlsCertificate.Pkcs12 = hidden
		}
		if t.TlsCertificate.Password != nil {
			t.TlsCertificate.Password = hidden
		}
	case *tlsv3.Secret_SessionTicketKeys:
		t.SessionTicketKeys.Keys = []*corev3.DataSource{hidden}
	case *tlsv3.Secret_GenericSecret:
		t.GenericSecret = &tlsv3.GenericSecret{Secret: hidden}
	}
	return s
}

// shownExtension returns an extension configuration with a redacted Wasm pull secret. It returns
// nil if the extension, or the Wasm configuration inside it, cannot be decoded. Other extensions
// are returned byte for byte, because their types may not be linked into the program.
func shownExtension(body []byte) proto.Message {
	x := new(corev3.TypedExtensionConfig)
	if proto.Unmarshal(body, x) != nil {
		return nil
	}
	var m interface {
		proto.Message
		GetConfig() *wasmv3.PluginConfig
	}
	switch t := x.GetTypedConfig(); {
	case t.MessageIs((*httpwasmv3.Wasm)(nil)):
		m = new(httpwasmv3.Wasm)
	case t.MessageIs((*networkwasmv3.Wasm)(nil)):
		m = new(networkwasmv3.Wasm)
	default:
		return x
	}
	if x.TypedConfig.UnmarshalTo(m) != nil {
		return nil
	}
	variables := m.GetConfig().GetVmConfig().GetEnvironmentVariables().GetKeyValues()
	if variables[pullSecretVariable] == "" {
		return x
	}
	variables[pullSecretVariable] = redacted
	if anypb.MarshalFrom(x.TypedConfig, m, proto.MarshalOptions{Deterministic: true}) != nil {
		return nil
	}
	return x
}
