package snapshot

import (
	"sync"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Settings is the mesh-wide configuration with all defaults applied; no pointer is nil. It is
// immutable, and its pointer changes only with its content.
type Settings struct {
	Mesh     *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks
	// Domain is the DNS suffix of Kubernetes services, "cluster.local".
	Domain string
	// Cluster is the cluster of the config objects, "" if it has no name.
	Cluster       mesh.ClusterID
	RootNamespace string
	TrustDomain   string
	Features      Features
	// Roots are the root certificates of the mesh's own CA, in PEM; empty if there is no CA.
	Roots []string
	// RootsComing is set while there is a CA whose roots are not known yet.
	RootsComing bool
	// Bundles are the certificates of the trust bundles that Mesh references, as in mesh.Settings.
	Bundles map[string]string

	// others caches the results of WithProxyConfig by its argument.
	others *sync.Map
}

// The defaults of Features whose zero value is not the default, as in istiod.
const (
	DefaultAcceptsPerEvent = 1
	DefaultDNSJitter       = 100 * time.Millisecond
	// DefaultHandshakeTimeout is the default of Features.HandshakeTimeout.
	DefaultHandshakeTimeout = 15 * time.Second
)

// Features are settings that Istio reads from environment variables of the control plane instead of
// MeshConfig. Translation depends on no other configuration than objects and Settings.
type Features struct {
	// ScopeGateways limits Gateways to proxies of their own namespace (default false;
	// PILOT_SCOPE_GATEWAY_TO_NAMESPACE).
	ScopeGateways bool
	// MergeForeignGateways serves Istio Gateways of all namespaces also on the proxies that are
	// deployed for a Gateway of the Gateway API (default false: only of its namespace;
	// PILOT_ENABLE_STRICT_GATEWAY_MERGING=false).
	MergeForeignGateways bool
	// QUICListeners serves HTTPS of gateways over HTTP/3 too (default false;
	// PILOT_ENABLE_QUIC_LISTENERS).
	QUICListeners bool
	// HTTP10 accepts HTTP/1.0 requests (default false; PILOT_HTTP10).
	HTTP10 bool
	// AnswerExpectContinue lets proxies answer `Expect: 100-continue` themselves rather than
	// forward it, so that an upload is sent whole even if the server would refuse it (default
	// false; ENABLE_100_CONTINUE_HEADERS=false).
	AnswerExpectContinue bool
	// AcceptsPerEvent is the number of connections that a worker of a proxy accepts per event
	// (default DefaultAcceptsPerEvent, also for 0; negative is unlimited;
	// MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP). A low number spreads a burst of connections over the
	// workers.
	AcceptsPerEvent int
	// DNSJitter is the maximum random delay added to the DNS refresh interval (default
	// DefaultDNSJitter, also for 0; negative is none; PILOT_DNS_JITTER_DURATION).
	DNSJitter time.Duration
	// HandshakeTimeout is the time that clients of gateways have for the TLS handshake (default
	// DefaultHandshakeTimeout, also for 0; negative is no limit;
	// PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT).
	HandshakeTimeout time.Duration
	// InternalNetworks makes proxies trust the address ranges in MeshNetworks as internal, so that
	// they keep x-envoy headers of requests from there (default false: only gateways do;
	// ENABLE_HCM_INTERNAL_NETWORKS).
	InternalNetworks bool
	// TrackRemaining makes proxies publish the remaining capacity of each circuit breaker as
	// statistics (default false; DISABLE_TRACK_REMAINING_CB_METRICS=false).
	TrackRemaining bool
	// IPv4Outbound makes proxies that have only IPv6 addresses also listen for captured outbound
	// connections over IPv4, and resolve names in both families: their network may translate IPv4
	// (default false; ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS).
	IPv4Outbound bool
	// DualStack merges a pod's IPv4 and IPv6 addresses into one endpoint if the Service has both
	// families, and makes proxies with both resolve names in both, to try the addresses one soon
	// after the other (default false: two endpoints, and IPv4 if a name has it; ISTIO_DUAL_STACK).
	DualStack bool
	// RelativeHosts leaves the absolute form of hosts, with a final dot, out of the domains of
	// virtual hosts (default false; PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN=false).
	RelativeHosts bool
	// ShadowHosts adds "-shadow" to the host of mirrored requests (default false;
	// DISABLE_SHADOW_HOST_SUFFIX=false).
	ShadowHosts bool
	// HeadlessEDS makes sidecars balance the load among the pods of headless Services of Kubernetes
	// instead of forwarding each call to the address that the caller chose (default false;
	// PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES).
	HeadlessEDS bool
	// LocalHeadlessNames limits the addresses of headless services in the name table to endpoints of
	// the proxy's own cluster (default false; ENABLE_MULTICLUSTER_HEADLESS=false).
	LocalHeadlessNames bool
	// LocalityWeights makes Envoy always choose a locality by weight before it chooses an endpoint,
	// unless locality load balancing is disabled or zone aware (default false;
	// ENABLE_LOCALITY_WEIGHTED_LB_CONFIG).
	LocalityWeights bool
	// RedisFilter makes sidecars parse Redis commands and route each by its key to an endpoint,
	// instead of sending a whole connection to one endpoint (default false;
	// PILOT_ENABLE_REDIS_FILTER).
	RedisFilter bool
	// SidecarIngressTLS applies the TLS settings of ingress listeners of Sidecars at ports where
	// PeerAuthentication disables mutual TLS (default false; ENABLE_TLS_ON_SIDECAR_INGRESS).
	SidecarIngressTLS bool
	// PersistentSessions makes callers of services with sessions (mesh.Service.Session) return to
	// the same endpoint (default false; PILOT_ENABLE_PERSISTENT_SESSION_FILTER).
	PersistentSessions bool
	// InferencePools lets routes of the Gateway API have InferencePools as backends: listeners of
	// gateways get the filter that asks endpoint pickers (default false;
	// ENABLE_GATEWAY_API_INFERENCE_EXTENSION).
	InferencePools bool
	// SendUnhealthy sends endpoints that are not ready also for services whose DestinationRule has
	// minHealthPercent, and disables Envoy's panic mode, so that they are never called (default
	// false: only for services with a traffic distribution; PILOT_SEND_UNHEALTHY_ENDPOINTS).
	SendUnhealthy bool
	// TraceSampling is the default percentage of requests that are traced (default 1, also for 0;
	// negative is none; PILOT_TRACE_SAMPLING).
	TraceSampling float64
	// LookupEnv returns a variable of the control plane's environment, and whether it is set. It is
	// called for headers of tracing providers with an envName. If nil, as in tools that have no
	// control plane, proxies read the variable from their own environment.
	LookupEnv func(name string) (value string, isSet bool)
	// AcceptAnyTrustDomain accepts callers of any trust domain whose certificates the mesh's roots
	// verify (default false; PILOT_SKIP_VALIDATE_TRUST_DOMAIN).
	AcceptAnyTrustDomain bool
	// AcceptAnyServer disables the default verification of servers for TLS origination: only
	// verification that a DestinationRule requires is done (default false;
	// VERIFY_CERTIFICATE_AT_CLIENT=false).
	AcceptAnyServer bool
	// KeyFetching selects who fetches the keys of token issuers (default FetchedByControlPlane;
	// PILOT_JWT_ENABLE_REMOTE_JWKS).
	KeyFetching KeyFetching
}

// KeyFetching selects who fetches the keys of token issuers from a jwksUri. If an issuer has no
// jwksUri, the control plane always fetches the discovery document and the keys.
type KeyFetching string

const (
	// FetchedByControlPlane fetches all keys in the control plane.
	FetchedByControlPlane KeyFetching = ""
	// FetchedByBoth fetches in the proxies from hosts that they see as services, and in the control
	// plane from all others.
	FetchedByBoth KeyFetching = "hybrid"
	// FetchedByProxies fetches all keys in the proxies; hosts must be services.
	FetchedByProxies KeyFetching = "envoy"
)

// WithProxyConfig returns the settings of proxies with overrides: own is an encoded ProxyConfig
// whose fields and entries of maps override the mesh's. Calls with equal arguments return the same
// pointer. It returns s itself for "", and if s is itself a result of WithProxyConfig. If own
// cannot be decoded, nothing is overridden.
func (s *Settings) WithProxyConfig(own string) *Settings {
	if own == "" || s.others == nil {
		return s
	}
	if r, ok := s.others.Load(own); ok {
		return r.(*Settings) //nolint:forcetypeassert // nothing else is put there
	}
	r := &Settings{
		Networks:      s.Networks,
		Domain:        s.Domain,
		Cluster:       s.Cluster,
		RootNamespace: s.RootNamespace,
		TrustDomain:   s.TrustDomain,
		Features:      s.Features,
		Roots:         s.Roots,
		RootsComing:   s.RootsComing,
		Bundles:       s.Bundles,
	}
	r.Mesh = proto.CloneOf(s.Mesh)
	config := new(meshconfig.ProxyConfig)
	if r.Mesh.DefaultConfig == nil {
		r.Mesh.DefaultConfig = new(meshconfig.ProxyConfig)
	}
	if proto.Unmarshal([]byte(own), config) == nil {
		replaceSet(r.Mesh.DefaultConfig, config)
	}
	made, _ := s.others.LoadOrStore(own, r)
	return made.(*Settings) //nolint:forcetypeassert // as above
}

// replaceSet sets in dst every field that is set in src; messages and lists are replaced as a
// whole. Of maps, it sets the entries in src. The values are shared.
func replaceSet(dst, src *meshconfig.ProxyConfig) {
	src.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !f.IsMap() {
			dst.ProtoReflect().Set(f, v)
			return true
		}
		entries := dst.ProtoReflect().Mutable(f).Map()
		v.Map().Range(func(k protoreflect.MapKey, entry protoreflect.Value) bool {
			entries.Set(k, entry)
			return true
		})
		return true
	})
}

// TrustDomains returns the mesh's trust domain and its aliases (trustDomainAliases).
func (s *Settings) TrustDomains() []string {
	return append([]string{s.TrustDomain}, s.Mesh.GetTrustDomainAliases()...)
}

// AlwaysSendsUnhealthy reports whether endpoints of svc that are not ready are sent whatever its
// DestinationRule, and Envoy's panic mode is off, so that they are never called: with
// Features.SendUnhealthy, and for services that prefer near endpoints, because Envoy moves load to
// farther ones by the share of near ones that are healthy.
func (s *Settings) AlwaysSendsUnhealthy(svc *mesh.Service) bool {
	return s.Features.SendUnhealthy || svc.TrafficDistribution != ""
}

// resolveSettings returns the Settings from s and the Builder's options. Without a MeshConfig the
// default one is used, without MeshNetworks an empty one.
func resolveSettings(s mesh.Settings, o Options) *Settings {
	r := &Settings{
		Mesh:        s.Mesh,
		Networks:    s.Networks,
		Domain:      o.Domain,
		Cluster:     o.Cluster,
		Features:    o.Features,
		Roots:       s.Roots,
		RootsComing: s.RootsComing,
		Bundles:     s.Bundles,
		others:      new(sync.Map),
	}
	if r.Mesh == nil {
		r.Mesh = mesh.DefaultMeshConfig()
	}
	if r.Networks == nil {
		r.Networks = new(meshconfig.MeshNetworks)
	}
	r.RootNamespace, r.TrustDomain = r.Mesh.RootNamespace, r.Mesh.TrustDomain
	return r
}
