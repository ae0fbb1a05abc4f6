package main

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshpilot/meshpilot/internal/base/command"
	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/discovery/options"
	"github.com/meshpilot/meshpilot/internal/model/retired"
	"github.com/meshpilot/meshpilot/internal/model/unread"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
)

// discoveryCommand returns the subcommand discovery, which runs the control plane. Its settings
// come from flags and, at this call, from Istio's environment variables, which lookup reads. An
// invalid variable or option is an error when the command runs. Retired flags are accepted with a
// warning, and a warning names each variable of istiod that is set but not read.
func discoveryCommand(lookup func(string) (string, bool)) *cobra.Command {
	o := discovery.Defaults()
	o.Logs.Out = os.Stdout
	c := &cobra.Command{
		Use: "discovery", Short: "Start the control plane", Args: cobra.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return discovery.Run(c.Context(), o)
		},
	}
	env := environment{lookup: lookup}
	env.applyTo(&o)
	if o.PodName == "" {
		o.PodName, _ = os.Hostname() // Without a name, tools show proxies as not connected.
	}
	addFlags(c.Flags(), &o)
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		env.applyCluster(&o)
		setPlaintextPort(&o, c.Flags().Changed("grpcAddr"))
		for _, text := range unread.Warnings(lookup) {
			fmt.Fprintln(os.Stderr, "warning: "+text)
		}
		return env.err
	}
	command.AddRetiredFlags(c, retired.DiscoveryFlags(), os.Stderr)
	return c
}

// addFlags adds the flags of discovery, which set o and, with few exceptions, default to its
// present values.
func addFlags(fs *pflag.FlagSet, o *discovery.Options) {
	fs.StringVar(&o.GRPCAddr, "grpcAddr", o.GRPCAddr,
		"xDS in plain text; empty: none (default in a pod: "+options.PodGRPCAddr+")")
	fs.StringVar(&o.SecureGRPCAddr, "secureGRPCAddr", o.SecureGRPCAddr, "xDS and certificates over TLS")
	fs.StringVar(&o.HTTPAddr, "httpAddr", o.HTTPAddr, "readiness and debug pages")
	fs.StringVar(&o.HTTPSAddr, "httpsAddr", o.HTTPSAddr, "webhooks; empty: served on httpAddr, without TLS")
	fs.StringVar(&o.MonitoringAddr, "monitoringAddr", o.MonitoringAddr, "metrics and debug pages; empty: on httpAddr")

	fs.StringVar(&o.ControlZHost, "ctrlz_address", o.ControlZHost,
		"where log levels may be changed: a loopback address")
	fs.Uint16Var(&o.ControlZPort, "ctrlz_port", o.ControlZPort, "port on which log levels may be changed; 0: none")

	fs.StringVar(&o.ConfigDir, "configDir", o.ConfigDir,
		"directory of YAML files with config objects and services, watched")
	fs.StringSliceVar(&o.ConfigClients, "configClients", nil,
		"SPIFFE IDs of the control planes that are fed config over xDS; one ending in /* is a prefix (default: istiod in the control plane's namespace)")
	fs.StringVar((*string)(&o.ConfigPlainText), "configPlainText", "",
		"who is fed config over xDS without TLS: loopback or anyone (default: nobody)")
	fs.StringVar((*string)(&o.SecretsPlainText), "secretsPlainText", "",
		"which gateways are sent private keys without TLS: loopback or anyone (default: none)")
	fs.StringSliceVar(&o.Registries, "registries", o.Registries,
		"platforms to read services from ("+strings.Join(o.RegistryNames(), ", ")+")")
	fs.StringSliceVar(&o.Peers, "peers", nil,
		"HTTP ports of the other replicas, HOST:PORT, whose answers are part of those of the read API (default: the endpoints of the control plane's own Service)")
	addConsulFlags(fs, &o.Consul)
	addPlatformFlags(fs, &o.Platforms)
	fs.StringVar(&o.Kubernetes.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster (default: the pod's service account, or KUBECONFIG if there is no --configDir)")
	fs.Float32Var(&o.Kubernetes.QPS, "kubernetesApiQPS", 80, "requests a second to the API server")
	fs.IntVar(&o.Kubernetes.Burst, "kubernetesApiBurst", 160, "requests to the API server at once")
	fs.StringVarP(&o.Kubernetes.AppNamespace, "appNamespace", "a", o.Kubernetes.AppNamespace,
		"the one namespace whose objects are read, of an API server or a folder (default: all)")
	fs.StringVar(&o.MeshConfigFile, "meshConfig", o.MeshConfigFile, "file with the mesh configuration, watched")
	fs.StringVar(&o.NetworksConfigFile, "networksConfig", o.NetworksConfigFile, "file with the mesh networks, watched")
	fs.StringVar(&o.Domain, "domain", o.Domain, "DNS suffix of services")
	fs.StringVar(&o.Remote.Namespace, "clusterRegistriesNamespace", "",
		"namespace of the Secrets with kubeconfigs of remote clusters (default: the control plane's)")
	fs.StringVar(&o.ClusterID, "clusterID", o.ClusterID, "name of the cluster that the control plane runs in")
	fs.StringSliceVar(&o.ClusterAliases, "clusterAliases", nil, "other names of clusters, as alias=cluster")
	fs.StringVarP(&o.Namespace, "namespace", "n", o.Namespace, "namespace of the control plane")

	fs.DurationVar(&o.Keepalive.Interval, "keepaliveInterval", o.Keepalive.Interval,
		"time between pings on a quiet connection")
	fs.DurationVar(&o.Keepalive.Timeout, "keepaliveTimeout", o.Keepalive.Timeout,
		"time to wait for the answer to a ping")
	fs.DurationVar(&o.Keepalive.MaxServerConnectionAge, "keepaliveMaxServerConnectionAge",
		o.Keepalive.MaxServerConnectionAge,
		"age at which a connection is closed, so that proxies spread over all replicas again")
	fs.DurationVar(&o.ShutdownDuration, "shutdownDuration", o.ShutdownDuration,
		"time that open streams get on shutdown")
	fs.BoolVar(&o.Profile, "profile", o.Profile, "serve /debug/pprof")
	fs.StringVar(&o.Authority.Dir, "caDir", "",
		"directory for the root of the mesh and the key of its workload tokens, without Kubernetes; made at the first start (default: no certificate authority)")
	fs.StringVar(&o.TLSCertFile, "tlsCertFile", "",
		"certificate of the TLS ports, with its chain, in PEM; read again when it changes")
	fs.StringVar(&o.TLSKeyFile, "tlsKeyFile", "", "its private key")
	fs.StringVar(&o.CACertFile, "caCertFile", "",
		"roots that client certificates are verified against; empty: clients need none")
	fs.StringVar(&o.TLS.MinVersion, "tls-min-version", "", "1.2 (default) or 1.3; TLSV1_2 and TLSV1_3 are the same")
	fs.StringSliceVar(&o.TLS.CipherSuites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2")
	command.AddLogFlags(fs, &o.Logs)
}

// environment reads settings from environment variables. err is the first invalid value.
type environment struct {
	lookup func(string) (string, bool)
	err    error
}

// applyTo reads all settings of the control plane that environment variables configure. Unset
// variables keep o's values or set the defaults. The first invalid one is recorded in e.err.
func (e *environment) applyTo(o *discovery.Options) {
	e.setText("POD_NAMESPACE", &o.Namespace)
	e.setText("POD_NAME", &o.PodName)
	e.setText("REVISION", &o.Revision)
	e.setText("SHARED_MESH_CONFIG", &o.Kubernetes.SharedMeshConfig)
	e.setText("CLUSTER_ID", &o.ClusterID)
	e.setText("ISTIO_WATCH_NAMESPACE", &o.Kubernetes.AppNamespace)
	e.setList("PILOT_IGNORE_RESOURCES", &o.Kubernetes.Ignored.Resources)
	e.setList("PILOT_INCLUDE_RESOURCES", &o.Kubernetes.Ignored.Except)
	e.setDuration("GRPC_KEEPALIVE_INTERVAL", &o.Keepalive.Interval)
	e.setDuration("GRPC_KEEPALIVE_TIMEOUT", &o.Keepalive.Timeout)
	if !e.boolOr("ENABLE_XDS_API_GENERATOR_AUTH", true) {
		o.ConfigPlainText = feed.PlainTextAnyone
	}
	e.setText("MESHPILOT_SECRETS_SCOPE", (*string)(&o.SecretsScope))
	e.setDuration("PILOT_REMOTE_CLUSTER_TIMEOUT", &o.Remote.Timeout)
	if v, ok := e.lookup("PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS"); ok && v != "" {
		o.Remote.Insecure = strings.Split(v, ",")
	}
	o.Remote.External = e.boolOr("EXTERNAL_ISTIOD", false)
	o.Remote.LocalSecrets = e.boolOr("LOCAL_CLUSTER_SECRET_WATCHER", false)
	o.Remote.ReadWorkloadEntries = e.boolOr("PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY", true)
	o.Remote.ReadCredentials = e.boolOr("PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER", true)
	o.Remote.ResolveGatewayNames = e.boolOr("RESOLVE_HOSTNAME_GATEWAYS", true)
	o.Allocation.OnlyOnRequest = !e.boolOr("PILOT_ENABLE_IP_AUTOALLOCATE", true)
	for i, name := range []string{"PILOT_IP_AUTOALLOCATE_IPV4_PREFIX", "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX"} {
		e.setPrefix(name, &o.Allocation.Ranges[i])
	}
	e.applyRegistry(&o.Registry)
	e.applyWebhooks(&o.Webhooks)
	e.setText("COMPLIANCE_POLICY", &o.TLS.Compliance)
	e.applyFeatures(&o.Features)
	e.applyProxySettings(&o.Features)
	e.setDuration("PILOT_DEBOUNCE_AFTER", &o.Push.DebounceAfter)
	e.setDuration("PILOT_DEBOUNCE_MAX", &o.Push.DebounceMax)
	o.Push.EndpointsAtOnce = !e.boolOr("PILOT_ENABLE_EDS_DEBOUNCE", true)
	if v, ok := e.lookup("DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES"); ok && v != "" {
		o.Debug.AllowedNamespaces = strings.Split(v, ",")
	}
	o.Debug.HTTP = e.boolOr("ENABLE_DEBUG_ON_HTTP", true)
	o.Debug.AnyNamespace = !e.boolOr("ENABLE_DEBUG_ENDPOINT_AUTH", true)
	o.Debug.Admin = e.boolOr("UNSAFE_ENABLE_ADMIN_ENDPOINTS", false)
	e.setFloat("PILOT_MAX_REQUESTS_PER_SECOND", &o.Push.MaxRequestsPerSecond)
	e.applyLimits(o)
	e.applyPushes(&o.Push)
	e.applyWrites(o)
	e.applyAuthority(&o.Authority)
	e.applyIssuers(&o.Issuers, &o.Features)
}

// applyFeatures reads which features of proxies are enabled. Unset variables set the defaults,
// except that TraceSampling then keeps its value. A trace sampling of 0 is stored as -1, because 0
// means unset. An invalid value is recorded in e.err.
func (e *environment) applyFeatures(f *snapshot.Features) {
	f.ScopeGateways = e.boolOr("PILOT_SCOPE_GATEWAY_TO_NAMESPACE", false)
	f.QUICListeners = e.boolOr("PILOT_ENABLE_QUIC_LISTENERS", false)
	f.AcceptAnyTrustDomain = e.boolOr("PILOT_SKIP_VALIDATE_TRUST_DOMAIN", false)
	f.SendUnhealthy = e.boolOr("PILOT_SEND_UNHEALTHY_ENDPOINTS", false)
	f.PersistentSessions = e.boolOr("PILOT_ENABLE_PERSISTENT_SESSION_FILTER", false)
	f.InferencePools = e.boolOr("ENABLE_GATEWAY_API_INFERENCE_EXTENSION", false)
	f.AcceptAnyServer = !e.boolOr("VERIFY_CERTIFICATE_AT_CLIENT", true)
	if v, ok := e.lookup("PILOT_TRACE_SAMPLING"); ok && v != "" {
		if e.setFloat("PILOT_TRACE_SAMPLING", &f.TraceSampling); f.TraceSampling == 0 {
			f.TraceSampling = -1 // 0 means unset, so -1 disables sampling
		}
	}
	f.SidecarIngressTLS = e.boolOr("ENABLE_TLS_ON_SIDECAR_INGRESS", false)
	f.RedisFilter = e.boolOr("PILOT_ENABLE_REDIS_FILTER", false)
	f.HTTP10 = e.boolOr("PILOT_HTTP10", false)
	f.LookupEnv = e.lookup
}

// applyLimits reads the resource limits for clients of the xDS ports, and the limits of the history
// of objects; unset ones keep their values. It also sets PrometheusURL, "" if unset, and whether
// workloads may register without TLS (default false). The first invalid value is recorded in e.err.
func (e *environment) applyLimits(o *discovery.Options) {
	e.setInt("MESHPILOT_XDS_PENDING_PER_SOURCE", &o.Limits.PendingPerSource)
	e.setInt("MESHPILOT_XDS_PENDING", &o.Limits.Pending)
	e.setInt("MESHPILOT_XDS_SMALL_REQUEST_BYTES", &o.Limits.SmallRequest)
	e.setInt("ISTIO_GPRC_MAXRECVMSGSIZE", &o.Limits.Request)
	e.setInt("MESHPILOT_XDS_MAX_NAMES", &o.Names.Names)
	e.setInt("MESHPILOT_XDS_MAX_NAME_BYTES", &o.Names.Bytes)
	e.setInt("MESHPILOT_OBJECT_HISTORY_BYTES", &o.History.Bytes)
	e.setInt("MESHPILOT_OBJECT_HISTORY_VERSIONS", &o.History.Versions)
	o.PrometheusURL, _ = e.lookup("MESHPILOT_PROMETHEUS_URL")
	o.Workloads.AllowPlaintext = e.boolOr("MESHPILOT_PLAINTEXT_REGISTRATION", false)
}

// applyCluster sets InCluster to whether KUBERNETES_SERVICE_HOST is set, whatever the flags are.
// Without --kubeconfig and --configDir it selects the file in KUBECONFIG, which then takes
// precedence over the API server of the pod. A KUBECONFIG that does not exist is ignored, because
// Istio's chart sets it in every pod.
func (e *environment) applyCluster(o *discovery.Options) {
	host, _ := e.lookup("KUBERNETES_SERVICE_HOST")
	o.Kubernetes.InCluster = host != ""
	file, _ := e.lookup("KUBECONFIG")
	if o.Kubernetes.Kubeconfig != "" || o.ConfigDir != "" || file == "" {
		return
	}
	if _, err := os.Stat(file); err == nil {
		o.Kubernetes.Kubeconfig = file
	}
}

// setPlaintextPort sets GRPCAddr to PodGRPCAddr in a pod, unless set reports that a flag configures
// it. The control plane's Service forwards other pods to that port.
func setPlaintextPort(o *discovery.Options, set bool) {
	if o.Kubernetes.InCluster && !set {
		o.GRPCAddr = options.PodGRPCAddr
	}
}

// applyWrites reads which objects are written to an API server, and the rate limits of writes.
// Variables that are not set leave o unchanged, except that status conditions, registration, health
// checks and the validation of identities are enabled. The first invalid value is recorded in
// e.err.
func (e *environment) applyWrites(o *discovery.Options) {
	o.Status.Conditions = e.boolOr("PILOT_ENABLE_STATUS", true)
	o.WriteEvents = e.boolOr("MESHPILOT_EVENTS", o.WriteEvents)
	g := &o.GatewayAPI
	g.Enabled = e.boolOr("PILOT_ENABLE_GATEWAY_API", g.Enabled)
	g.WriteStatus = e.boolOr("PILOT_ENABLE_GATEWAY_API_STATUS", g.WriteStatus)
	g.Deploy = e.boolOr("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", g.Deploy)
	g.BindServices = e.boolOr("ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT", g.BindServices)
	g.CreateClasses = e.boolOr("PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER", g.CreateClasses)
	g.CopyMetadata = e.boolOr("PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS", g.CopyMetadata)
	limits := &o.Status.Limits
	qps, burst, workers := float64(limits.QPS), float64(limits.Burst), float64(limits.Workers)
	e.setFloat("PILOT_STATUS_QPS", &qps)
	e.setFloat("PILOT_STATUS_BURST", &burst)
	e.setFloat("PILOT_STATUS_MAX_WORKERS", &workers)
	limits.QPS, limits.Burst, limits.Workers = float32(qps), int(burst), int(workers)
	e.setDuration("PILOT_STATUS_UPDATE_INTERVAL", &limits.Interval)
	o.Workloads.Register = e.boolOr("PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION", true)
	o.Workloads.HealthChecks = e.boolOr("PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS", true)
	o.Workloads.AllowAnyIdentity = !e.boolOr("ISTIO_WORKLOAD_ENTRY_VALIDATE_IDENTITY", true)
	e.setDuration("PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", &o.Workloads.Grace)
}

// boolOr returns the value of a boolean variable, or otherwise if the variable is unset, empty or
// invalid. An invalid value is also an error of e.
func (e *environment) boolOr(name string, otherwise bool) bool {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return otherwise
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		e.addError(name, v, "want true or false")
		return otherwise
	}
	return on
}

// setFloat reads a finite number that is not negative into *to. Any other value is an error of e
// and leaves *to unchanged, as an unset or empty variable does.
func (e *environment) setFloat(name string, to *float64) {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		e.addError(name, v, "want a number that is not negative")
		return
	}
	*to = n
}

// setText reads a text. If the variable is unset or empty, it leaves *to unchanged.
func (e *environment) setText(name string, to *string) {
	if v, ok := e.lookup(name); ok && v != "" {
		*to = v
	}
}

// setDuration reads a duration such as "100ms" into *to. A malformed one is an error of e and
// leaves *to unchanged, as an unset or empty variable does.
func (e *environment) setDuration(name string, to *time.Duration) {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		e.addError(name, v, "want a duration like 100ms")
		return
	}
	*to = d
}

// setPrefix reads an address range. It must be of the same address family as the default in to, and
// more than one address; any other is an error of e. An unset or empty variable leaves *to
// unchanged.
func (e *environment) setPrefix(name string, to *netip.Prefix) {
	v, ok := e.lookup(name)
	if !ok || v == "" {
		return
	}
	p, err := netip.ParsePrefix(v)
	if err != nil || p.Addr().Is4() != to.Addr().Is4() || p.IsSingleIP() {
		e.addError(name, v, fmt.Sprintf("want a range like %s", to))
		return
	}
	*to = p
}

// addError sets e.err to an error about a variable, unless it is set already.
func (e *environment) addError(name, value, reason string) {
	if e.err == nil {
		e.err = fmt.Errorf("%s %q: %s", name, value, reason)
	}
}
