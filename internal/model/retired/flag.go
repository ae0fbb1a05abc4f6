package retired

// Flag is a command-line flag that Istio has removed. The program accepts it and reports
// its successor.
type Flag struct {
	Name string
	// Type is how the value is read. A Bool needs no value.
	Type Type
	// Field is the field of ProxyConfig that the flag still sets, as a path in the API's JSON
	// names. If empty, the flag has no effect.
	Field string
	// Alias is the current name of this flag.
	Alias string
	// Successor is what takes its place, as the end of a sentence: "set ProxyConfig.binaryPath".
	Successor string
}

// Type is the type of a flag's value.
type Type int

// The types of values.
const (
	Text Type = iota
	Bool
	Duration
	Port
)

// DiscoveryFlags returns the flags that Istio has removed from "pilot-discovery discovery", or
// renamed.
func DiscoveryFlags() []Flag {
	const builtIn, entries = "networking plugins are built in; change proxies with EnvoyFilter, WasmPlugin or TrafficExtension",
		"describe services outside Kubernetes with ServiceEntry and WorkloadEntry"
	return []Flag{
		{Name: "secureGrpcAddr", Alias: "secureGRPCAddr", Successor: "use --secureGRPCAddr"},
		{Name: "plugins", Successor: builtIn},
		{Name: "resync", Type: Duration, Successor: "watches are followed without a resync, and only changes are sent"},
		{Name: "discoveryCache", Type: Bool, Successor: "generated configuration is always shared between proxies"},
		{Name: "discovery_cache", Type: Bool, Successor: "generated configuration is always shared between proxies"},
		{Name: "disable-install-crds", Type: Bool, Successor: "definitions of kinds come with the chart istio-base"},
		{Name: "clusterRegistriesConfigMap",
			Successor: "use Secrets labelled istio/multiCluster: \"true\", and --clusterRegistriesNamespace"},
		{Name: "webhookEndpoint", Successor: builtIn},
		{Name: "mcpServerAddrs", Successor: "set MeshConfig.configSources, which are served over xDS"},
		{Name: "mcpMaxMsgSize", Successor: "set MeshConfig.configSources, which are served over xDS"},
		{Name: "mcpInitialWindowSize", Successor: "set MeshConfig.configSources, which are served over xDS"},
		{Name: "mcpInitialConnWindowSize", Successor: "set MeshConfig.configSources, which are served over xDS"},
		{Name: "cfConfig", Successor: entries},
		{Name: "trust-domain", Successor: "set MeshConfig.trustDomain"},
	}
}

// AgentFlags returns the retired flags of "pilot-agent proxy": first the flags that still set a
// field of ProxyConfig, then the ones without effect. In Istio 1.0 to 1.4 the command line was the
// only place that set these fields; from 1.5 on it took precedence over the mesh configuration.
func AgentFlags() []Flag {
	const zipkin = "set ProxyConfig.tracing.zipkin.address, or MeshConfig.extensionProviders and a Telemetry"
	return append([]Flag{
		field("binaryPath", Text),
		field("configPath", Text),
		field("controlPlaneAuthPolicy", Text),
		field("customConfigFile", Text),
		field("discoveryAddress", Text),
		field("drainDuration", Duration),
		field("proxyAdminPort", Port),
		field("statsdUdpAddress", Text),
		field("statusPort", Port),
		{Name: "zipkinAddress", Field: "tracing.zipkin.address", Successor: zipkin},
		{
			Name: "datadogAgentAddress", Field: "tracing.datadog.address",
			Successor: "set ProxyConfig.tracing.datadog.address, or MeshConfig.extensionProviders and a Telemetry",
		},
	}, agentFlagsWithoutEffect()...)
}

// field returns a flag that has the name of the field of ProxyConfig that it sets.
func field(name string, t Type) Flag {
	return Flag{Name: name, Type: t, Field: name, Successor: "set ProxyConfig." + name}
}

// agentFlagsWithoutEffect returns the retired flags of pilot-agent that have no effect, with their
// successors.
func agentFlagsWithoutEffect() []Flag {
	const lightstep = "set MeshConfig.extensionProviders[].opentelemetry, and a Telemetry"
	return []Flag{
		{Name: "parentShutdownDuration", Type: Duration,
			Successor: "Envoy is not restarted hot; set ProxyConfig.terminationDrainDuration"},
		{Name: "connectTimeout", Type: Duration,
			Successor: "set MeshConfig.connectTimeout, or a DestinationRule's connectionPool.tcp.connectTimeout"},
		{Name: "discoveryRefreshDelay", Type: Duration,
			Successor: "configuration is pushed, not polled; PILOT_DEBOUNCE_AFTER of the control plane delays it"},
		{Name: "availabilityZone", Successor: "set the label topology.istio.io/locality, or WorkloadEntry.locality"},
		{Name: "applicationPorts", Successor: "readiness does not depend on the application's ports; use ProxyConfig.readinessProbe on virtual machines"},
		{Name: "lightstepAddress", Successor: lightstep},
		{Name: "lightstepAccessToken", Successor: lightstep},
		{Name: "lightstepSecure", Type: Bool, Successor: lightstep},
		{Name: "lightstepCacertPath", Successor: lightstep},
		{Name: "datadog", Type: Bool, Successor: "set ProxyConfig.tracing.datadog.address"},
		{Name: "trust-domain", Successor: "set the environment variable TRUST_DOMAIN"},
		{Name: "ip", Successor: "set the environment variable INSTANCE_IP"},
		{Name: "id", Successor: "set the environment variables POD_NAME and POD_NAMESPACE"},
		{Name: "serviceregistry", Successor: "the control plane knows its registries; set --domain if the suffix differs"},
		{Name: "pilotIdentity", Successor: "set the environment variable ISTIOD_SAN"},
		{Name: "mixerIdentity", Successor: "there is no Mixer; use Telemetry and AuthorizationPolicy"},
		{Name: "disableInternalTelemetry", Type: Bool, Successor: "use Telemetry"},
		{Name: "controlPlaneBootstrap", Type: Bool, Successor: "the control plane needs no proxy beside it"},
		{Name: "kubeAppProberConfig", Successor: "set the environment variable ISTIO_KUBE_APP_PROBERS"},
	}
}
