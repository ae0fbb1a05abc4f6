package snapshot

import (
	"sync"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Settings is the mesh-wide configuration, resolved: no field is nil. It is a row.
type Settings struct {
	Mesh     *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks
	// Domain is the DNS suffix of Kubernetes services, "cluster.local".
	Domain string
	// Cluster is the one that config is read from, "" if it has no name.
	Cluster       mesh.ClusterID
	RootNamespace string
	TrustDomain   string
	Features      Features
	// Roots are the certificates of the mesh's own authority, in PEM; none where there is no authority.
	Roots []string
	// RootsComing says that there is an authority whose roots are not known yet.
	RootsComing bool
	// Bundles are the certificates of the trust bundles that Mesh names, as in mesh.Settings.
	Bundles map[string]string

	// others are the Settings of proxies that have some of their own, by what With was given.
	others *sync.Map
}

// The defaults of Features that are not zero, as istiod has them.
const (
	DefaultAcceptsPerEvent = 1
	DefaultDNSJitter       = 100 * time.Millisecond
)

// Features are what Istio has as environment variables of its control plane, and not in MeshConfig. They are part of Settings,
// which are all that is known of a mesh besides its objects.
type Features struct {
	// ScopeGateways keeps Gateways from proxies of other namespaces. PILOT_SCOPE_GATEWAY_TO_NAMESPACE.
	ScopeGateways bool
	// QUICListeners serves HTTPS of gateways over HTTP/3 too. PILOT_ENABLE_QUIC_LISTENERS.
	QUICListeners bool
	// HTTP10 lets clients speak HTTP/1.0. PILOT_HTTP10.
	HTTP10 bool
	// AnswerExpectContinue lets proxies answer `Expect: 100-continue` themselves rather than forward it, so that an upload
	// is sent whole even if the server would refuse it (default false; ENABLE_100_CONTINUE_HEADERS=false).
	AnswerExpectContinue bool
	// AcceptsPerEvent is the number of connections that a worker of a proxy accepts at once (DefaultAcceptsPerEvent, if 0; less than
	// 0 is no limit; MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP). A low number spreads a burst of connections over the workers.
	AcceptsPerEvent int
	// DNSJitter is added at random to the time between two look-ups of a host (DefaultDNSJitter, if 0; less than 0 is none;
	// PILOT_DNS_JITTER_DURATION).
	DNSJitter time.Duration
	// TrackRemaining has proxies count what is left of each circuit breaker limit, as statistics (default false;
	// DISABLE_TRACK_REMAINING_CB_METRICS=false).
	TrackRemaining bool
	// RedisFilter has sidecars read the commands that are sent to services that speak Redis, each of which goes to the
	// endpoint that its key belongs to, rather than all of a connection to one. PILOT_ENABLE_REDIS_FILTER.
	RedisFilter bool
	// PersistentSessions has callers of services with sessions (mesh.Service.Session) come back to the endpoint that they had.
	// PILOT_ENABLE_PERSISTENT_SESSION_FILTER.
	PersistentSessions bool
	// SendUnhealthy has callers know of endpoints that are not ready also where a rule has a minHealthPercent, and Envoy never call them:
	// it panics no more. PILOT_SEND_UNHEALTHY_ENDPOINTS.
	SendUnhealthy bool
	// TraceSampling is the percentage of requests that are traced where nothing else says so; 0: 1. None is less than 0.
	// PILOT_TRACE_SAMPLING.
	TraceSampling float64
	// AnyTrustDomain takes calls of proxies of any trust domain that the mesh's roots vouch for. PILOT_SKIP_VALIDATE_TRUST_DOMAIN.
	AnyTrustDomain bool
	// TakeAnyServer has proxies check of servers that they call by TLS only what a rule says is to be checked.
	// VERIFY_CERTIFICATE_AT_CLIENT=false.
	TakeAnyServer bool
	// KeyFetching is who fetches the keys that tokens of requests are checked with. PILOT_JWT_ENABLE_REMOTE_JWKS.
	KeyFetching KeyFetching
}

// KeyFetching is who fetches the keys of token issuers from where a jwksUri says. What has to be found out by the issuer's discovery
// document is fetched by the control plane in any case.
type KeyFetching string

const (
	// FetchedByControlPlane is for all keys.
	FetchedByControlPlane KeyFetching = ""
	// FetchedByBoth has proxies fetch from hosts that they see as services, and the control plane from others.
	FetchedByBoth KeyFetching = "hybrid"
	// FetchedByProxies has proxies fetch all: hosts have to be services.
	FetchedByProxies KeyFetching = "envoy"
)

// With gives the Settings for proxies that have some of their own: those fields of a ProxyConfig, encoded, that take the place of
// the mesh's. It is the same row each time.
func (s *Settings) With(own string) *Settings {
	if own == "" || s.others == nil {
		return s
	}
	if r, ok := s.others.Load(own); ok {
		return r.(*Settings) //nolint:forcetypeassert // nothing else is put there
	}
	r := &Settings{Networks: s.Networks, Domain: s.Domain, Cluster: s.Cluster, RootNamespace: s.RootNamespace, TrustDomain: s.TrustDomain, Features: s.Features, Roots: s.Roots, RootsComing: s.RootsComing, Bundles: s.Bundles}
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

// replaceSet sets every field of dst that src has.
func replaceSet(dst, src *meshconfig.ProxyConfig) {
	src.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		dst.ProtoReflect().Set(f, v)
		return true
	})
}

// TrustDomains gives the mesh's trust domain, and the others whose identities are its own too (trustDomainAliases).
func (s *Settings) TrustDomains() []string {
	return append([]string{s.TrustDomain}, s.Mesh.GetTrustDomainAliases()...)
}

func resolveSettings(s mesh.Settings, o Options) *Settings {
	r := &Settings{Mesh: s.Mesh, Networks: s.Networks, Domain: o.Domain, Cluster: o.Cluster, Features: o.Features, Roots: s.Roots, RootsComing: s.RootsComing, Bundles: s.Bundles, others: new(sync.Map)}
	if r.Mesh == nil {
		r.Mesh = mesh.DefaultMeshConfig()
	}
	if r.Networks == nil {
		r.Networks = new(meshconfig.MeshNetworks)
	}
	r.RootNamespace, r.TrustDomain = r.Mesh.RootNamespace, r.Mesh.TrustDomain
	return r
}
