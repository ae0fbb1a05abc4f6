package discovery

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// Options are all settings of pilot-discovery. Addresses are "host:port" with an empty host for all interfaces; an empty
// address turns the port off.
type Options struct {
	// GRPCAddr serves xDS in plain text: to this machine alone by default, in a pod to all (PodGRPCAddr). Its clients can prove
	// nothing, and encrypt nothing.
	GRPCAddr string
	// SecureGRPCAddr and HTTPSAddr are for the ports that need a certificate authority.
	SecureGRPCAddr, HTTPSAddr string
	// HTTPAddr serves readiness and the debug pages; MonitoringAddr metrics and the debug pages, empty: both on HTTPAddr.
	HTTPAddr, MonitoringAddr string
	// ControlZHost and ControlZPort are where levels of logging are changed while the program runs, for whoever is on the
	// machine: a loopback address. Port 0: nowhere. The control plane runs without it if the place is taken.
	ControlZHost string
	ControlZPort uint16

	// ConfigDir is a tree of YAML files with config objects and services; empty: none.
	ConfigDir string
	// ConfigClients are the SPIFFE IDs of the control planes that are fed this one's config over xDS (see feed.Access); nil: this
	// one's own, istiod in its namespace. ConfigPlainText is who is fed without TLS: loopback, anyone; empty: nobody.
	ConfigClients   []string
	ConfigPlainText feed.PlainText
	// SecretsPlainText is who is sent private keys without TLS, on their word that they are of the Secret's namespace: loopback,
	// anyone; empty: nobody. Over TLS it is who has a certificate of the namespace.
	SecretsPlainText feed.PlainText
	// SecretsScope is how much of an API server's Secrets is read, and so what it takes to be allowed to: each that a gateway names by
	// itself (names, the default), or all of the namespaces or of the cluster that it is in. MESHPILOT_SECRETS_SCOPE.
	SecretsScope credential.Reach
	// Remote is how other clusters are read.
	Remote Remote
	// Allocation is how hosts without addresses are given some. PILOT_IP_AUTOALLOCATE_IPV4_PREFIX and …_IPV6_PREFIX are its ranges;
	// PILOT_ENABLE_IP_AUTOALLOCATE=false leaves them to proxies that ask for them (ISTIO_META_DNS_AUTO_ALLOCATE).
	Allocation snapshot.Allocation
	// Features are what Istio has as environment variables of its control plane.
	Features snapshot.Features
	// Registries are the platforms that services are read from: Kubernetes, Mock.
	Registries []string
	// Kubernetes is the API server that is read. With ConfigDir rules come from the files, and services from the API server.
	Kubernetes Kubernetes
	// Registry is how services are made of objects.
	Registry Registry
	// Webhooks are what the API server asks.
	Webhooks WebhookOptions
	// Revision is the control plane's, empty: there is no other. REVISION.
	Revision string
	// MeshConfigFile and NetworksConfigFile are watched. One that is not there at the start leaves it to the ConfigMap "istio" of the
	// control plane's namespace ("istio-REVISION"), or the defaults.
	MeshConfigFile, NetworksConfigFile string
	// Domain is the DNS suffix of services; ClusterID names the cluster that the control plane runs in, ClusterAliases
	// other names that proxies may use for a cluster (alias to name).
	Domain         string
	ClusterID      string
	ClusterAliases []string
	// Namespace is that of the control plane; PodName its own name, shown to proxies.
	Namespace, PodName string

	Keepalive Keepalive
	// ShutdownDuration bounds how long open streams may last after the stop began.
	ShutdownDuration time.Duration
	// Profile serves /debug/pprof.
	Profile bool
	Debug   Debug

	Authority AuthorityOptions
	// Issuers are how the keys of token issuers are fetched.
	Issuers Issuers

	// TLSCertFile, TLSKeyFile and CACertFile are what the TLS ports are served with; see server.CertificateFiles. They are
	// not opened without.
	TLSCertFile, TLSKeyFile, CACertFile string
	// TLSMinVersion is TLSV1_2, which empty is, or TLSV1_3; TLSCipherSuites are names of suites of TLS 1.2.
	TLSMinVersion   string
	TLSCipherSuites []string

	// Status is what is written into objects, Workloads how those outside of Kubernetes are registered.
	Status    Status
	Workloads Workloads

	Push Push
	// Limits bound what clients of the xDS ports may cost, those of each port for themselves.
	Limits xds.Limits
	// Names bounds what one stream may subscribe to.
	Names stream.NameLimits
	Logs  obs.LogOptions
}

// Keepalive is how dead connections are found (gRPC over HTTP/2 pings), and how old streams may become.
type Keepalive struct {
	Interval, Timeout time.Duration
	// MaxServerConnectionAge closes streams so that proxies spread over replicas anew; a very long time turns it off.
	MaxServerConnectionAge time.Duration
}

// Debug is who may read the debug pages from outside the machine. It takes an identity in any case.
type Debug struct {
	// AllowedNamespaces are those whose identities may read all pages, besides the control plane's own.
	// DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES.
	AllowedNamespaces []string
	// AnyNamespace lets every identity read all pages, and not only those about proxies of its own namespace.
	// ENABLE_DEBUG_ENDPOINT_AUTH=false.
	AnyNamespace bool
	// Admin serves the page that ends streams, /debug/force_disconnect. UNSAFE_ENABLE_ADMIN_ENDPOINTS.
	Admin bool
}

// Push is how changes are gathered and how fast proxies are served.
type Push struct {
	// DebounceAfter is how long to wait for quiet, 0: changes go out at once and gather only while a push is under way.
	// PILOT_DEBOUNCE_AFTER.
	DebounceAfter time.Duration
	// DebounceMax bounds the wait. PILOT_DEBOUNCE_MAX.
	DebounceMax time.Duration
	// EndpointsAtOnce exempts changes of endpoints alone from DebounceAfter. PILOT_ENABLE_EDS_DEBOUNCE=false.
	EndpointsAtOnce bool
	// MaxRequestsPerSecond bounds new streams; 0: they are taken as fast as they can be served. PILOT_MAX_REQUESTS_PER_SECOND.
	MaxRequestsPerSecond float64
	// Throttle bounds how many responses are composed and written at the same time; 0: no bound. PILOT_PUSH_THROTTLE.
	Throttle int
	// RebalancePerHour is the part of its connections that a replica closes in an hour, so that those of all replicas become
	// even in number; 0: none. MESHPILOT_REBALANCE_PER_HOUR.
	RebalancePerHour float64
}

// PodGRPCAddr is the default of GRPCAddr in a pod: other pods reach it by the Service of the control plane.
const PodGRPCAddr = ":15010"

// Defaults gives the options of a control plane that was given no flags.
func Defaults() Options {
	return Options{
		GRPCAddr: "127.0.0.1:15010", SecureGRPCAddr: ":15012", HTTPAddr: ":8080", HTTPSAddr: ":15017", MonitoringAddr: ":15014", ControlZHost: "localhost", ControlZPort: 9876,
		Registries: []string{"Kubernetes"}, MeshConfigFile: "./etc/istio/config/mesh", NetworksConfigFile: "./etc/istio/config/meshNetworks",
		Domain: "cluster.local", ClusterID: "Kubernetes", Namespace: "istio-system",
		Keepalive:        Keepalive{Interval: 30 * time.Second, Timeout: 10 * time.Second, MaxServerConnectionAge: 1<<63 - 1},
		ShutdownDuration: 10 * time.Second, Profile: true,
		Allocation: snapshot.DefaultAllocation(),
		Remote:     Remote{Timeout: 30 * time.Second},
		Authority:  defaultAuthority(),
		Issuers:    defaultIssuers(),
		Push:       Push{DebounceMax: 10 * time.Second},
	}
}

// Validate says what is wrong, naming the flag, before anything is opened.
func (o Options) Validate() error {
	var errs []error
	for flag, addr := range map[string]string{
		"--grpcAddr": o.GRPCAddr, "--secureGRPCAddr": o.SecureGRPCAddr, "--httpAddr": o.HTTPAddr,
		"--httpsAddr": o.HTTPSAddr, "--monitoringAddr": o.MonitoringAddr,
	} {
		if addr == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: want host:port", flag, addr))
		} else if _, err := net.ResolveTCPAddr("tcp", addr); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", flag, addr, err))
		}
	}
	errs = append(errs, o.validateSources()...)
	for flag, d := range map[string]time.Duration{
		"--keepaliveInterval": o.Keepalive.Interval, "--keepaliveTimeout": o.Keepalive.Timeout,
		"--keepaliveMaxServerConnectionAge": o.Keepalive.MaxServerConnectionAge,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s %v: must be positive", flag, d))
		}
	}
	if o.ShutdownDuration < 0 {
		errs = append(errs, fmt.Errorf("--shutdownDuration %v: must not be negative", o.ShutdownDuration))
	}
	if o.Push.DebounceAfter < 0 || o.Push.DebounceMax < 0 || o.Push.DebounceAfter > o.Push.DebounceMax {
		errs = append(errs, fmt.Errorf("PILOT_DEBOUNCE_AFTER %v, PILOT_DEBOUNCE_MAX %v: want 0 <= after <= max", o.Push.DebounceAfter, o.Push.DebounceMax))
	}
	errs = append(errs, o.validateTLS()...)
	if err := o.Webhooks.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.Authority.validate(); err != nil {
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (o Options) validateSources() []error {
	var errs []error
	for _, r := range o.Registries {
		switch r {
		case "Mock", "Kubernetes":
		default:
			errs = append(errs, fmt.Errorf("--registries %q: want Kubernetes or Mock", r))
		}
	}
	if o.ConfigDir != "" {
		if info, err := os.Stat(o.ConfigDir); err != nil {
			errs = append(errs, fmt.Errorf("--configDir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("--configDir %q: is not a directory", o.ConfigDir))
		}
	}
	if o.Domain == "" {
		errs = append(errs, errors.New("--domain: must not be empty"))
	}
	for flag, who := range map[string]feed.PlainText{"--configPlainText": o.ConfigPlainText, "--secretsPlainText": o.SecretsPlainText} {
		switch who {
		case feed.PlainTextRefused, feed.PlainTextLoopback, feed.PlainTextAnyone:
		default:
			errs = append(errs, fmt.Errorf("%s %q: want %s or %s", flag, who, feed.PlainTextLoopback, feed.PlainTextAnyone))
		}
	}
	switch o.SecretsScope {
	case "", credential.Names, credential.Namespaces, credential.Cluster:
	default:
		errs = append(errs, fmt.Errorf("MESHPILOT_SECRETS_SCOPE %q: want %s, %s or %s", o.SecretsScope, credential.Names, credential.Namespaces, credential.Cluster))
	}
	seen := map[string]string{}
	for _, a := range o.ClusterAliases {
		alias, cluster, ok := strings.Cut(a, "=")
		if !ok || alias == "" || cluster == "" {
			errs = append(errs, fmt.Errorf("--clusterAliases %q: want alias=cluster", a))
		} else if other := seen[cluster]; other != "" {
			errs = append(errs, fmt.Errorf("--clusterAliases: cluster %q has two aliases, %q and %q", cluster, other, alias))
		}
		seen[cluster] = alias
	}
	return errs
}

func (o Options) validateTLS() []error {
	var errs []error
	switch o.TLSMinVersion {
	case "", "TLSV1_2", "TLSV1_3":
	default:
		errs = append(errs, fmt.Errorf("--tls-min-version %q: want TLSV1_2 or TLSV1_3", o.TLSMinVersion))
	}
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		errs = append(errs, errors.New("--tlsCertFile, --tlsKeyFile: one needs the other"))
	}
	var known []string
	for _, s := range tls.CipherSuites() {
		known = append(known, s.Name)
	}
	for _, s := range o.TLSCipherSuites {
		if !slices.Contains(known, s) {
			errs = append(errs, fmt.Errorf("--tls-cipher-suites %q: unknown or insecure; known are %s", s, strings.Join(known, ", ")))
		}
	}
	return errs
}

// tlsVersion and cipherSuites give the settings as crypto/tls has them. Validate has looked at them.
func (o Options) tlsVersion() uint16 {
	if o.TLSMinVersion == "TLSV1_3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

func (o Options) cipherSuites() []uint16 {
	var ids []uint16
	for _, s := range tls.CipherSuites() {
		if slices.Contains(o.TLSCipherSuites, s.Name) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
