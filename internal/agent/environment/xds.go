package environment

// grpcBootstrapFile is where injection has applications look for their bootstrap.
const grpcBootstrapFile = "./etc/istio/proxy/grpc-bootstrap.json"

// XDS is how configuration comes from the control plane.
type XDS struct {
	// ViaAgent has Envoy ask the agent, which asks the control plane; otherwise Envoy asks the control plane itself
	// (PROXY_XDS_VIA_AGENT, true if not set).
	ViaAgent bool
	// DebugPort is where the agent answers questions about the mesh, which it passes on to the control plane; 0: nowhere
	// (PROXY_XDS_DEBUG_VIA_AGENT, PROXY_XDS_DEBUG_VIA_AGENT_PORT; 15004 if not set).
	DebugPort uint32
	// ProxyConfig has the agent follow changes of the mesh's ProxyConfig, which brings the authorities that are trusted
	// (PROXY_CONFIG_XDS_AGENT, true if not set).
	ProxyConfig bool
	// GRPCBootstrap is a file that the agent writes for gRPC without a proxy (GRPC_XDS_BOOTSTRAP); "": none. Beside such an application,
	// which injection tells of by ISTIO_META_GENERATOR=grpc, it need not be named.
	GRPCBootstrap string
	// ConvertWasm has the agent fetch Wasm modules and hand Envoy local files
	// (ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION, true if not set).
	ConvertWasm bool
}

func (r *reader) xds() XDS {
	x := XDS{
		ViaAgent:      r.boolean("PROXY_XDS_VIA_AGENT", true),
		ProxyConfig:   r.boolean("PROXY_CONFIG_XDS_AGENT", true),
		GRPCBootstrap: r.vars["GRPC_XDS_BOOTSTRAP"],
		ConvertWasm:   r.boolean("ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION", true),
	}
	if x.GRPCBootstrap == "" && r.vars["ISTIO_META_GENERATOR"] == "grpc" {
		x.GRPCBootstrap = grpcBootstrapFile
	}
	if r.boolean("PROXY_XDS_DEBUG_VIA_AGENT", true) {
		x.DebugPort = r.port("PROXY_XDS_DEBUG_VIA_AGENT_PORT", 15004)
	}
	return x
}
