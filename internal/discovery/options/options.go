package options

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/base/tlspolicy"
	"github.com/meshpilot/meshpilot/internal/diagnostics/history"
	"github.com/meshpilot/meshpilot/internal/identity/authority"
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/consul"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/kube/admission"
	"github.com/meshpilot/meshpilot/internal/kube/autoregister"
	"github.com/meshpilot/meshpilot/internal/kube/status"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Options are all settings of pilot-discovery. Addresses have the form "host:port"; an empty host
// listens on all interfaces. An empty address disables the port.
type Options struct {
	// GRPCAddr is the address of xDS in plain text. The default is loopback, or PodGRPCAddr in a
	// pod. Clients are not authenticated and connections are not encrypted.
	GRPCAddr string
	// SecureGRPCAddr is the address of xDS over TLS, and HTTPSAddr that of the webhooks. Both need
	// a serving certificate. If HTTPSAddr is empty, HTTPAddr serves the webhooks, without TLS.
	SecureGRPCAddr, HTTPSAddr string
	// HTTPAddr serves readiness, metrics and the debug pages. MonitoringAddr serves the same pages,
	// for scrapers; if empty, only HTTPAddr does.
	HTTPAddr, MonitoringAddr string
	// ControlZHost and ControlZPort are the address where log levels can be changed at run time by
	// any process of the machine. The host is a loopback address, and port 0 disables it. If the
	// address is unavailable, the control plane runs without it.
	ControlZHost string
	ControlZPort uint16

	// ConfigDir is a tree of YAML files with config objects and services. If empty, there is none.
	ConfigDir string
	// ConfigClients are the SPIFFE IDs of the control planes that may read this one's config over
	// xDS (see feed.Access). If nil, only istiod in its own namespace may. ConfigPlainText selects
	// the clients that may read it without TLS: loopback or anyone. If empty, none may.
	ConfigClients   []string
	ConfigPlainText feed.PlainText
	// SecretsPlainText selects the proxies that are sent private keys without TLS: loopback or
	// anyone. If empty, none are. Their claimed namespace is not verified. Over TLS, a proxy needs
	// an authenticated identity of the Secret's namespace.
	SecretsPlainText feed.PlainText
	// SecretsScope selects how many Secrets of an API server are read, and so which permissions are
	// required. The default, names, reads each Secret that a gateway references by itself. The
	// others read all Secrets of its namespace or of its cluster (MESHPILOT_SECRETS_SCOPE).
	SecretsScope credential.Reach
	// Remote configures how remote clusters are read.
	Remote remote.Settings
	// Allocation configures the automatic addresses of hosts that have none. Its ranges are
	// PILOT_IP_AUTOALLOCATE_IPV4_PREFIX and …_IPV6_PREFIX. With PILOT_ENABLE_IP_AUTOALLOCATE=false,
	// only proxies that request them have such addresses (ISTIO_META_DNS_AUTO_ALLOCATE).
	Allocation snapshot.Allocation
	// Features are the settings that Istio's control plane reads from environment variables.
	Features snapshot.Features
	// Registries are the platforms from which services are read: Kubernetes, Consul, or a name of
	// platformRegistries.
	Registries []string
	// Consul configures how services are read from Consul, if Registries contains it.
	Consul consul.Settings
	// Platforms configure the other platforms that Registries contains.
	Platforms Platforms
	// Kubernetes selects the API server that is read. With ConfigDir, config objects are read from
	// files and services from the API server.
	Kubernetes Kubernetes
	// Registry configures how objects are converted to services.
	Registry Registry
	// Webhooks configures the webhooks that the API server calls.
	Webhooks admission.Settings
	// Peers are the HTTP ports of the other replicas, HOST:PORT. If empty, they are the endpoints
	// of the control plane's own Service.
	Peers []string
	// Revision is the revision of the control plane. If empty, there is no other (REVISION).
	Revision string
	// MeshConfigFile and NetworksConfigFile are watched. If one does not exist at the start, the
	// ConfigMap "istio" of the control plane's namespace ("istio-REVISION") is used, or the
	// defaults.
	MeshConfigFile, NetworksConfigFile string
	// Domain is the DNS suffix of services. ClusterID is the name of the cluster in which the
	// control plane runs. ClusterAliases are other names that proxies may use for a cluster, as
	// alias=cluster.
	Domain         string
	ClusterID      string
	ClusterAliases []string
	// Namespace is the namespace of the control plane. PodName is its own name, which is sent to
	// proxies.
	Namespace, PodName string

	Keepalive Keepalive
	// ShutdownDuration limits how long open streams may continue after the stop began.
	ShutdownDuration time.Duration
	// Profile enables /debug/pprof.
	Profile bool
	Debug   Debug

	Authority authority.Settings
	// Issuers configures how the keys of token issuers are fetched.
	Issuers jwks.Settings

	// TLSCertFile, TLSKeyFile and CACertFile are the certificate, key and client roots of the TLS
	// ports; see server.CertificateFiles. If empty, the certificate of Authority is used. Without
	// any certificate the ports stay closed.
	TLSCertFile, TLSKeyFile, CACertFile string
	// TLS restricts the TLS ports.
	TLS tlspolicy.Policy

	// Status configures the writes to the status of objects. Workloads configures the registration
	// of workloads outside of Kubernetes.
	Status status.Settings
	// WriteEvents writes Kubernetes Events on objects with errors (default true; MESHPILOT_EVENTS).
	WriteEvents bool
	// GatewayAPI configures the writes for objects of the Gateway API.
	GatewayAPI GatewayAPI
	Workloads  autoregister.Settings

	Push Push
	// Limits are the resource limits for xDS clients. They apply to each port separately.
	Limits xds.Limits
	// Names limits the number and size of the resource names to which one stream may subscribe.
	Names stream.NameLimits
	// History limits the versions of objects that are recorded.
	History history.Limits
	// PrometheusURL is that of a Prometheus that scrapes the proxies. The topology has the rates of
	// calls from it (default: none; MESHPILOT_PROMETHEUS_URL).
	PrometheusURL string
	Logs          obs.LogOptions
}

// Keepalive configures the detection of dead connections (gRPC over HTTP/2 pings) and the maximum
// age of streams.
type Keepalive struct {
	// Interval is how long a connection is quiet before it is pinged, and Timeout how long the
	// answer is awaited before the connection is closed.
	Interval, Timeout time.Duration
	// MaxServerConnectionAge closes older streams, so that proxies are distributed over the
	// replicas again. The default, about 300 years, disables it.
	MaxServerConnectionAge time.Duration
}

// Debug configures whether the debug pages are served, and which clients from other machines may
// read them. These always need an identity.
type Debug struct {
	// HTTP serves the pages, with profiles, at the HTTP ports (default true; ENABLE_DEBUG_ON_HTTP).
	// Otherwise they are served at the xDS ports only.
	HTTP bool
	// AllowedNamespaces are namespaces whose identities may read all pages, besides identities of
	// the control plane's own namespace (DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES).
	AllowedNamespaces []string
	// AnyNamespace allows every identity to read all pages, instead of only those about proxies of
	// its own namespace (set by ENABLE_DEBUG_ENDPOINT_AUTH=false).
	AnyNamespace bool
	// Admin enables the page that closes streams, /debug/force_disconnect (default false;
	// UNSAFE_ENABLE_ADMIN_ENDPOINTS).
	Admin bool
}

// Push configures how changes are debounced and how fast proxies are served.
type Push struct {
	// DebounceAfter is the quiet period that ends a debounce. With 0, changes are pushed at once
	// and are merged only during a push (PILOT_DEBOUNCE_AFTER).
	DebounceAfter time.Duration
	// DebounceMax limits the debounce (PILOT_DEBOUNCE_MAX).
	DebounceMax time.Duration
	// EndpointsAtOnce exempts changes of endpoints only from DebounceAfter (set by
	// PILOT_ENABLE_EDS_DEBOUNCE=false).
	EndpointsAtOnce bool
	// MaxRequestsPerSecond limits new streams. With 0 there is no fixed limit: streams are accepted
	// as fast as they can be served (PILOT_MAX_REQUESTS_PER_SECOND).
	MaxRequestsPerSecond float64
	// Throttle limits how many responses are built and written concurrently; 0 sets no limit
	// (PILOT_PUSH_THROTTLE).
	Throttle int
	// RebalancePerHour is the share of its connections that a replica may close per hour to balance
	// their number across replicas; 0 disables it (MESHPILOT_REBALANCE_PER_HOUR).
	RebalancePerHour float64
	// Slow is the time until the last acknowledgement from which a push is logged as slow (default
	// 10 s; MESHPILOT_SLOW_PUSH). With 0, none is.
	Slow time.Duration
	// TraceProtocol is the protocol by which traces of pushes are exported, grpc or http/protobuf
	// (OTEL_EXPORTER_OTLP_PROTOCOL). If empty, none are.
	TraceProtocol string
}

// PodGRPCAddr is the default of GRPCAddr in a pod, where other pods connect to it through the
// Service of the control plane.
const PodGRPCAddr = ":15010"

// Defaults returns the options of a control plane without flags.
func Defaults() Options {
	return Options{
		GRPCAddr:           "127.0.0.1:15010",
		SecureGRPCAddr:     ":15012",
		HTTPAddr:           ":8080",
		HTTPSAddr:          ":15017",
		MonitoringAddr:     ":15014",
		ControlZHost:       "localhost",
		ControlZPort:       9876,
		Registries:         []string{"Kubernetes"},
		MeshConfigFile:     "./etc/istio/config/mesh",
		NetworksConfigFile: "./etc/istio/config/meshNetworks",
		Domain:             "cluster.local",
		ClusterID:          "Kubernetes",
		Namespace:          "istio-system",
		Keepalive: Keepalive{
			Interval:               30 * time.Second,
			Timeout:                10 * time.Second,
			MaxServerConnectionAge: 1<<63 - 1,
		},
		ShutdownDuration: 10 * time.Second,
		Profile:          true,
		Allocation:       snapshot.DefaultAllocation(),
		Remote:           remote.DefaultSettings(),
		Consul:           consul.DefaultSettings(),
		Platforms:        DefaultPlatforms(),
		Authority:        authority.DefaultSettings(),
		Webhooks:         admission.Settings{Inject: true},
		Debug:            Debug{HTTP: true},
		Status:           status.Settings{Conditions: true, Limits: status.Limits{}.WithDefaults()},
		WriteEvents:      true,
		Workloads:        autoregister.DefaultSettings(),
		Registry:         DefaultRegistry(),
		GatewayAPI:       DefaultGatewayAPI(),
		Issuers:          jwks.DefaultSettings(),
		Push:             Push{DebounceMax: 10 * time.Second, Slow: 10 * time.Second},
		Limits:           xds.DefaultLimits(),
		Names:            push.DefaultNames(),
		History:          history.DefaultLimits(),
	}
}
