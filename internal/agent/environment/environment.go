package environment

import (
	"net/netip"
	"time"
)

// Environment is what the agent takes from environment variables. It is immutable.
type Environment struct {
	// PodName, PodNamespace and ServiceAccount identify the workload (POD_NAME, POD_NAMESPACE, SERVICE_ACCOUNT).
	PodName, PodNamespace, ServiceAccount string
	// InstanceIP is the workload's main address (INSTANCE_IP); the zero Addr if not given.
	InstanceIP netip.Addr
	// InstanceIPs are all its addresses where somebody knows them (INSTANCE_IPS, comma-separated as status.podIPs is, or
	// ISTIO_META_INSTANCE_IPS). Empty: the addresses of the network interfaces.
	InstanceIPs []netip.Addr
	// HostIP is the node's address, which replaces $(HOST_IP) in addresses of services and in the bootstrap override
	// (HOST_IP); "" if not given.
	HostIP string

	// BootstrapTemplate is a file used instead of the built-in bootstrap (ISTIO_BOOTSTRAP); BootstrapOverride is one
	// that Envoy merges over it (ISTIO_BOOTSTRAP_OVERRIDE).
	BootstrapTemplate, BootstrapOverride string
	// DisableEnvoy makes an agent without Envoy (DISABLE_ENVOY).
	DisableEnvoy bool
	// DeltaXDS asks the control plane for differences rather than the whole state (ISTIO_DELTA_XDS, true if not set).
	DeltaXDS bool
	// HotRestart has Envoy replaced by a new one, without losing a request, when the agent gets SIGHUP or the user's bootstrap
	// files change (MESHPILOT_HOT_RESTART). Istio's agent did that up to 1.6.
	HotRestart bool
	// SkipDeprecatedLogs keeps Envoy quiet about deprecated fields (ENVOY_SKIP_DEPRECATED_LOGS, true if not set).
	SkipDeprecatedLogs bool

	// ExitOnZeroActiveConnections ends draining when the last connection is closed, but not before
	// MinimumDrainDuration (EXIT_ON_ZERO_ACTIVE_CONNECTIONS, MINIMUM_DRAIN_DURATION, 5 s).
	ExitOnZeroActiveConnections bool
	MinimumDrainDuration        time.Duration
	// TerminationDrainDuration replaces ProxyConfig.terminationDrainDuration; negative if not set
	// (TERMINATION_DRAIN_DURATION_SECONDS).
	TerminationDrainDuration time.Duration

	// CPULimit is the number of cores that the container may use, rounded up; 0 if there is no limit (ISTIO_CPU_LIMIT).
	CPULimit int
	// SocketMark is the SO_MARK for everything Envoy connects to, 0 for none (MESHPILOT_SOCKET_MARK). It is for capture
	// that tells the proxy's connections by mark rather than by user.
	SocketMark uint32
	// EnvoyStatusPort and EnvoyPrometheusPort are where Envoy serves readiness and metrics (ENVOY_STATUS_PORT, 15021;
	// ENVOY_PROMETHEUS_PORT, 15090).
	EnvoyStatusPort, EnvoyPrometheusPort uint32
	// MetricsForLocalhost has metrics of the agent and of Envoy told to nobody but this host (METRICS_LOCALHOST_ACCESS_ONLY).
	MetricsForLocalhost bool
	// Application is where the application serves metrics, from the pod's prometheus.io annotations as the injector
	// found them (ISTIO_PROMETHEUS_ANNOTATIONS); nil if it serves none.
	Application *Application

	// Probes are kubelet's questions to the application, which the agent puts (ISTIO_KUBE_APP_PROBERS, JSON); "" for none.
	Probes string
	// ProbeLocalhost has the agent ask the application at localhost, and not at the workload's address
	// (REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION): a machine may not have the address that others know it by.
	ProbeLocalhost bool

	// Metadata is for the node: ISTIO_META_NAME=value gives NAME, ISTIO_METAJSON_ANY={...} gives its members.
	Metadata map[string]any
	// Labels and Annotations are those of ISTIO_METAJSON_LABELS and ISTIO_METAJSON_ANNOTATIONS.
	Labels, Annotations map[string]string

	// Security and XDS are about identity and the control plane.
	Security Security
	XDS      XDS
	DNS      DNS
	Wasm     Wasm

	// Warnings name the variables that are set and have no effect yet.
	Warnings []string
}

// Parse reads the variables.
func Parse(vars Variables) (Environment, error) {
	r := reader{vars: vars}
	e := Environment{
		PodName: vars["POD_NAME"], PodNamespace: vars["POD_NAMESPACE"], ServiceAccount: vars["SERVICE_ACCOUNT"],
		InstanceIP:  r.address("INSTANCE_IP"),
		InstanceIPs: r.addresses("INSTANCE_IPS", "ISTIO_META_INSTANCE_IPS"),
		HostIP:      r.host("HOST_IP"),

		BootstrapTemplate: vars["ISTIO_BOOTSTRAP"], BootstrapOverride: vars["ISTIO_BOOTSTRAP_OVERRIDE"],
		DisableEnvoy:       r.boolean("DISABLE_ENVOY", false),
		DeltaXDS:           r.boolean("ISTIO_DELTA_XDS", true),
		HotRestart:         r.boolean("MESHPILOT_HOT_RESTART", false),
		SkipDeprecatedLogs: r.boolean("ENVOY_SKIP_DEPRECATED_LOGS", true),

		ExitOnZeroActiveConnections: r.boolean("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", false),
		MinimumDrainDuration:        r.duration("MINIMUM_DRAIN_DURATION", 5*time.Second),
		TerminationDrainDuration:    r.seconds("TERMINATION_DRAIN_DURATION_SECONDS", -1),

		CPULimit:            r.cores("ISTIO_CPU_LIMIT"),
		SocketMark:          r.number("MESHPILOT_SOCKET_MARK", 0),
		EnvoyStatusPort:     r.port("ENVOY_STATUS_PORT", 15021),
		EnvoyPrometheusPort: r.port("ENVOY_PROMETHEUS_PORT", 15090),
		MetricsForLocalhost: r.boolean("METRICS_LOCALHOST_ACCESS_ONLY", false),
		Application:         r.application("ISTIO_PROMETHEUS_ANNOTATIONS"),
		Probes:              r.vars["ISTIO_KUBE_APP_PROBERS"],
		ProbeLocalhost:      r.boolean("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", false),
		Security:            r.security(),
		XDS:                 r.xds(),
		DNS:                 r.dns(),
		Wasm:                r.wasm(),
	}
	r.metadata(&e)
	r.later(&e)
	return e, r.err
}
