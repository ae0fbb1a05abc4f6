package environment

import (
	"net/netip"
	"time"
)

// Environment holds the agent's settings from environment variables. It is immutable.
type Environment struct {
	// PodName, PodNamespace and ServiceAccount identify the workload (POD_NAME, POD_NAMESPACE,
	// SERVICE_ACCOUNT).
	PodName, PodNamespace, ServiceAccount string
	// InstanceIP is the workload's primary address (INSTANCE_IP). If not set, it is the zero Addr.
	InstanceIP netip.Addr
	// InstanceIPs are all addresses of the workload (INSTANCE_IPS, comma-separated like
	// status.podIPs, or ISTIO_META_INSTANCE_IPS). If empty, the addresses of the network interfaces
	// are used.
	InstanceIPs []netip.Addr
	// HostIP is the node's address (HOST_IP, default ""). It replaces $(HOST_IP) in service
	// addresses and in the bootstrap override.
	HostIP string

	// BootstrapTemplate is a file that replaces the built-in bootstrap (ISTIO_BOOTSTRAP).
	// BootstrapOverride is a file that Envoy merges over it (ISTIO_BOOTSTRAP_OVERRIDE).
	BootstrapTemplate, BootstrapOverride string
	// RunEnvoy runs an Envoy beside the agent (default true; DISABLE_ENVOY=true disables it).
	RunEnvoy bool
	// DeltaXDS selects the delta protocol for xDS instead of SotW (ISTIO_DELTA_XDS, default true).
	DeltaXDS bool
	// HotRestart replaces Envoy by a new process without losing a request when the agent receives
	// SIGHUP or the user's bootstrap files change (MESHPILOT_HOT_RESTART, default false). Istio's
	// agent supported this up to 1.6.
	HotRestart bool
	// LogDeprecations lets Envoy log warnings about deprecated fields (default false;
	// ENVOY_SKIP_DEPRECATED_LOGS=false enables it).
	LogDeprecations bool

	// ExitOnZeroActiveConnections ends draining when the last connection is closed, but not before
	// MinimumDrainDuration (EXIT_ON_ZERO_ACTIVE_CONNECTIONS, default false; MINIMUM_DRAIN_DURATION,
	// default 5 s).
	ExitOnZeroActiveConnections bool
	MinimumDrainDuration        time.Duration
	// TerminationDrainDuration overrides ProxyConfig.terminationDrainDuration
	// (TERMINATION_DRAIN_DURATION_SECONDS). It is negative if not set.
	TerminationDrainDuration time.Duration

	// CPULimit is the container's CPU limit in cores, rounded up (ISTIO_CPU_LIMIT). If 0, there is
	// no limit.
	CPULimit int
	// SocketMark is the SO_MARK of all connections that Envoy opens (MESHPILOT_SOCKET_MARK). If 0,
	// none is set. It is for traffic capture that identifies the proxy's connections by mark
	// instead of user.
	SocketMark uint32
	// OnDemand makes Envoy fetch the clusters of services when it first calls them
	// (MESHPILOT_ON_DEMAND). It has no effect without DeltaXDS.
	OnDemand bool
	// EnvoyStatusPort and EnvoyPrometheusPort are Envoy's ports for readiness and metrics
	// (ENVOY_STATUS_PORT, default 15021; ENVOY_PROMETHEUS_PORT, default 15090).
	EnvoyStatusPort, EnvoyPrometheusPort uint32
	// EnvoySecureMetricsPort and EnvoySecureMergedMetricsPort are the ports on which Envoy serves
	// metrics with mutual TLS: its own, and those merged with the agent's and the application's
	// (ENVOY_SECURE_METRICS_PORT, ENVOY_SECURE_MERGED_METRICS_PORT). If 0, it does not.
	EnvoySecureMetricsPort, EnvoySecureMergedMetricsPort uint32
	// MetricsLocalhostOnly serves the metrics of agent and Envoy on loopback only
	// (METRICS_LOCALHOST_ACCESS_ONLY, default false).
	MetricsLocalhostOnly bool
	// Applications are the application's metrics endpoints, from the pod's prometheus annotations
	// before injection (ISTIO_PROMETHEUS_ANNOTATIONS). If empty, there are none.
	Applications []Application

	// Probes are the kubelet's probes of the application in JSON, which the agent performs
	// (ISTIO_KUBE_APP_PROBERS, default "").
	Probes string
	// ProbeLocalhost sends probes to localhost instead of the workload's address
	// (REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION, default false). A machine may be reachable under
	// an address that none of its interfaces has.
	ProbeLocalhost bool

	// Metadata is the node metadata: ISTIO_META_NAME=value sets NAME, ISTIO_METAJSON_ANY={...} sets
	// the members of the object.
	Metadata map[string]any
	// Labels and Annotations are the values of ISTIO_METAJSON_LABELS and
	// ISTIO_METAJSON_ANNOTATIONS.
	Labels, Annotations map[string]string

	// Security configures the workload's identity, XDS the connection to the control plane.
	Security Security
	XDS      XDS
	DNS      DNS
	Wasm     Wasm

	// Warnings name the variables that are set but not supported, or ignored as invalid.
	Warnings []string
}

// Parse returns the settings in the variables. A missing variable has its default, and so has an
// empty one, except metadata and headers, whose empty values count. All invalid values are reported
// in one joined error; the settings of these variables are then meaningless. Variables without
// effect, invalid ports in ISTIO_META_POD_PORTS, and text that is no boolean, number or duration
// are no errors but Warnings.
func Parse(vars Variables) (Environment, error) {
	r := reader{vars: vars}
	e := Environment{
		PodName: vars["POD_NAME"], PodNamespace: vars["POD_NAMESPACE"], ServiceAccount: vars["SERVICE_ACCOUNT"],
		InstanceIP:  r.readAddress("INSTANCE_IP"),
		InstanceIPs: r.readAddresses("INSTANCE_IPS", "ISTIO_META_INSTANCE_IPS"),
		HostIP:      r.readAddressText("HOST_IP"),

		BootstrapTemplate: vars["ISTIO_BOOTSTRAP"], BootstrapOverride: vars["ISTIO_BOOTSTRAP_OVERRIDE"],
		RunEnvoy:        !r.readBool("DISABLE_ENVOY", false),
		DeltaXDS:        r.readBool("ISTIO_DELTA_XDS", true),
		HotRestart:      r.readBool("MESHPILOT_HOT_RESTART", false),
		LogDeprecations: !r.readBool("ENVOY_SKIP_DEPRECATED_LOGS", true),

		ExitOnZeroActiveConnections: r.readBool("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", false),
		MinimumDrainDuration:        r.readDuration("MINIMUM_DRAIN_DURATION", 5*time.Second),
		TerminationDrainDuration:    r.readSeconds("TERMINATION_DRAIN_DURATION_SECONDS", -1),

		CPULimit:            r.readCores("ISTIO_CPU_LIMIT"),
		SocketMark:          r.readUint32("MESHPILOT_SOCKET_MARK", 0),
		OnDemand:            r.readBool("MESHPILOT_ON_DEMAND", false),
		EnvoyStatusPort:     r.readPort("ENVOY_STATUS_PORT", 15021),
		EnvoyPrometheusPort: r.readPort("ENVOY_PROMETHEUS_PORT", 15090),

		EnvoySecureMetricsPort:       r.readOptionalPort("ENVOY_SECURE_METRICS_PORT"),
		EnvoySecureMergedMetricsPort: r.readOptionalPort("ENVOY_SECURE_MERGED_METRICS_PORT"),

		MetricsLocalhostOnly: r.readBool("METRICS_LOCALHOST_ACCESS_ONLY", false),
		Applications:         r.readApplications("ISTIO_PROMETHEUS_ANNOTATIONS"),
		Probes:               r.vars["ISTIO_KUBE_APP_PROBERS"],
		ProbeLocalhost:       r.readBool("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", false),
		Security:             r.readSecurity(),
		XDS:                  r.readXDS(),
		DNS:                  r.readDNS(),
		Wasm:                 r.readWasm(),
	}
	r.readMetadata(&e)
	r.reportUnsupported(&e)
	e.Warnings = append(e.Warnings, r.warnings...)
	return e, r.err
}
