package environment

// grpcBootstrapFile is the path of the gRPC bootstrap that the injector configures for
// applications.
const grpcBootstrapFile = "./etc/istio/proxy/grpc-bootstrap.json"

// XDS configures how the proxy receives configuration from the control plane.
type XDS struct {
	// ViaAgent connects Envoy to the control plane through the agent instead of directly
	// (PROXY_XDS_VIA_AGENT, default true).
	ViaAgent bool
	// DebugPort is where the agent serves debug requests by forwarding them to the control plane
	// (PROXY_XDS_DEBUG_VIA_AGENT, default true; PROXY_XDS_DEBUG_VIA_AGENT_PORT, default 15004). If
	// 0, they are not served.
	DebugPort uint32
	// ProxyConfig subscribes the agent to the mesh's ProxyConfig, which holds the trusted roots
	// (PROXY_CONFIG_XDS_AGENT, default true).
	ProxyConfig bool
	// GRPCBootstrap is a file to which the agent writes the bootstrap of proxyless gRPC
	// (GRPC_XDS_BOOTSTRAP). If empty, none is written. With ISTIO_META_GENERATOR=grpc, which the
	// injector sets, it defaults to grpcBootstrapFile.
	GRPCBootstrap string
	// ConvertWasm has the agent download Wasm modules and replace them by local files in Envoy's
	// configuration (ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION, default true).
	ConvertWasm bool
}

// readXDS returns the settings of the xDS proxy, with their defaults. DebugPort is 0 if
// PROXY_XDS_DEBUG_VIA_AGENT is false. GRPCBootstrap defaults to grpcBootstrapFile if
// ISTIO_META_GENERATOR is grpc. Invalid values are added to r's errors.
func (r *reader) readXDS() XDS {
	x := XDS{
		ViaAgent:      r.readBool("PROXY_XDS_VIA_AGENT", true),
		ProxyConfig:   r.readBool("PROXY_CONFIG_XDS_AGENT", true),
		GRPCBootstrap: r.vars["GRPC_XDS_BOOTSTRAP"],
		ConvertWasm:   r.readBool("ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION", true),
	}
	if x.GRPCBootstrap == "" && r.vars["ISTIO_META_GENERATOR"] == "grpc" {
		x.GRPCBootstrap = grpcBootstrapFile
	}
	if r.readBool("PROXY_XDS_DEBUG_VIA_AGENT", true) {
		x.DebugPort = r.readPort("PROXY_XDS_DEBUG_VIA_AGENT_PORT", 15004)
	}
	return x
}
