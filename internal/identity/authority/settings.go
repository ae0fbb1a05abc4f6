package authority

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Settings are the settings of the certificate authority and of client authentication.
type Settings struct {
	// Enabled runs a certificate authority (default true; ENABLE_CA_SERVER).
	Enabled bool
	// Dir is the directory with the mesh root and the key of workload tokens, for use without
	// Kubernetes (--caDir). If empty, there is no authority, unless PluggedDir has one.
	Dir string
	// PluggedDir is where operators mount their own authority, the Secret cacerts (ROOT_CA_DIR).
	PluggedDir string
	// Poll is the interval at which both directories are checked for changes; 0 is two seconds.
	Poll time.Duration
	// SelfSignedInCacerts stores a self-signed root in the Secret cacerts instead of
	// istio-ca-secret (default false; USE_CACERTS_FOR_SELF_SIGNED_CA).
	SelfSignedInCacerts bool
	// KeyType is the type of the keys that the control plane generates
	// (CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE).
	KeyType ca.KeyType
	// Lifetimes limit the lifetime of workload certificates (DEFAULT_WORKLOAD_CERT_TTL,
	// MAX_WORKLOAD_CERT_TTL).
	Lifetimes ca.Lifetimes
	// RenewalGrace is how long after the removal of its last workload a service account may still
	// renew a certificate with its current one. The default is one minute; a negative value sets no
	// limit, as in istiod (MESHPILOT_CERT_RENEWAL_GRACE).
	RenewalGrace time.Duration
	// RootLifetime is the lifetime of a self-signed root, and Rotation configures its renewal
	// (CITADEL_SELF_SIGNED_CA_CERT_TTL, CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL,
	// CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE,
	// CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR).
	RootLifetime time.Duration
	Rotation     ca.Rotation

	// External selects an external signer (EXTERNAL_CA). The only value is
	// ISTIOD_RA_KUBERNETES_API, which uses Kubernetes' CertificateSigningRequests; if empty, the
	// control plane signs. ExternalSigner is the default signer (K8S_SIGNER). SignerDomain is
	// prepended to a signer that a proxy requests (CERT_SIGNER_DOMAIN). ExternalRoot is the file
	// with the signer's roots, ./etc/external-ca-cert/root-cert.pem.
	External, ExternalSigner, SignerDomain, ExternalRoot string

	// Hosts are additional DNS names and addresses of the control plane (ISTIOD_CUSTOM_HOST).
	Hosts []string
	// CertProvider selects the signer of the control plane's serving certificate
	// (PILOT_CERT_PROVIDER): istiod for its own authority, k8s.io/SIGNER, custom for files in
	// ./var/run/secrets/istiod, or none.
	CertProvider string

	// Audiences are the accepted token audiences. A token must have at least one (TOKEN_AUDIENCES).
	Audiences []string
	// OIDC is a token issuer besides Kubernetes (JWT_RULE). If nil, there is none.
	OIDC *authenticate.OIDCRule
	// TrustedGateways are networks whose gateways may forward client certificates
	// (TRUSTED_GATEWAY_CIDR).
	TrustedGateways []netip.Prefix
	// TrustedNodes are the service accounts, as NAMESPACE/NAME, that may request certificates for
	// pods of their node (CA_TRUSTED_NODE_ACCOUNTS).
	TrustedNodes []string
	// AuthenticateXDS refuses xDS streams over TLS of unauthenticated clients (default true;
	// XDS_AUTH).
	AuthenticateXDS bool
	// CheckXDSIdentity refuses authenticated clients that claim to be a proxy of another identity
	// (default true; PILOT_ENABLE_XDS_IDENTITY_CHECK).
	CheckXDSIdentity bool
	// PublishRoots writes ConfigMaps with the roots into every namespace (default true;
	// TRUST_DISTRIBUTION=off disables it).
	PublishRoots bool
	// RootConfigMap is the name of these ConfigMaps; if empty, istio-ca-root-cert
	// (PILOT_CA_CERT_CONFIGMAP).
	RootConfigMap string
	// PublishRevocationLists adds the revocation lists that operators supply with the authority
	// (default true; PILOT_ENABLE_CA_CRL).
	PublishRevocationLists bool
}

// externalKubernetes is the only value of EXTERNAL_CA.
const externalKubernetes = "ISTIOD_RA_KUBERNETES_API"

// DefaultSettings returns Istio's default settings. Fields that have none are zero, and so is
// KeyType, whose zero value is ECDSA on P-256.
func DefaultSettings() Settings {
	return Settings{
		Enabled: true, PluggedDir: "./etc/cacerts",
		Lifetimes: ca.DefaultLifetimes(), RenewalGrace: time.Minute, RootLifetime: 3650 * 24 * time.Hour,
		Rotation:     ca.Rotation{Interval: time.Hour, GracePercent: 20, Jitter: true},
		ExternalRoot: "./etc/external-ca-cert/root-cert.pem", CertProvider: "istiod", Audiences: []string{"istio-ca"},
		AuthenticateXDS: true, CheckXDSIdentity: true, PublishRoots: true, PublishRevocationLists: true,
	}
}

// Values of PILOT_CERT_PROVIDER. providerKubernetes is a prefix.
const (
	providerIstiod     = "istiod"
	providerCustom     = "custom"
	providerNone       = "none"
	providerKubernetes = "k8s.io/"
)

// Validate returns an error that names every invalid environment variable, nil if all are valid.
// Lifetimes must be positive, the default at most the maximum, and percentages and RSA key sizes
// other than 0 in their range. EXTERNAL_CA and PILOT_CERT_PROVIDER must be known values or empty.
// At least one audience and no empty one is required, and trusted nodes must be NAMESPACE/NAME.
func (s Settings) Validate() error {
	var errs []error
	if l := s.Lifetimes; l.Default <= 0 || l.Max < l.Default {
		errs = append(errs, fmt.Errorf("DEFAULT_WORKLOAD_CERT_TTL %v, MAX_WORKLOAD_CERT_TTL %v: want 0 < default <= most", l.Default, l.Max))
	}
	if s.RootLifetime <= 0 {
		errs = append(errs, fmt.Errorf("CITADEL_SELF_SIGNED_CA_CERT_TTL %v: must be positive", s.RootLifetime))
	}
	if p := s.Rotation.GracePercent; p < 0 || p > 100 {
		errs = append(errs, fmt.Errorf("CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE %d: want 0 to 100", p))
	}
	if n := s.KeyType.RSABits; n != 0 && (n < 2048 || n > 8192) {
		errs = append(errs, fmt.Errorf("CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE %d: want 2048 to 8192", n))
	}
	if s.External != "" && s.External != externalKubernetes {
		errs = append(errs, fmt.Errorf("EXTERNAL_CA %q: want %s", s.External, externalKubernetes))
	}
	switch p := s.CertProvider; {
	case p == "", p == providerIstiod, p == providerCustom, p == providerNone,
		strings.HasPrefix(p, providerKubernetes) && len(p) > len(providerKubernetes):
	default:
		errs = append(errs, fmt.Errorf("PILOT_CERT_PROVIDER %q: want istiod, k8s.io/SIGNER, custom or none", p))
	}
	if len(s.Audiences) == 0 || slices.Contains(s.Audiences, "") {
		errs = append(errs, errors.New("TOKEN_AUDIENCES: must not be empty"))
	}
	for _, a := range s.TrustedNodes {
		namespace, name, ok := strings.Cut(a, "/")
		if _, err := (spiffe.Account{TrustDomain: "any", Namespace: namespace, Name: name}).ID(); !ok || err != nil {
			errs = append(errs, fmt.Errorf("CA_TRUSTED_NODE_ACCOUNTS %q: want NAMESPACE/NAME", a))
		}
	}
	return errors.Join(errs...)
}

// serviceHosts returns the host names and addresses of the serving certificate. First come s.Hosts,
// then the sorted names SERVICE.NAMESPACE.svc of the Services istiod, istiod-remote, istio-pilot
// and istiod-REVISION. The last is left out for the revisions "" and "default".
func (s Settings) serviceHosts(namespace, revision string) []string {
	list := slices.Clone(s.Hosts)
	services := []string{"istiod", "istiod-remote", "istio-pilot"}
	if revision != "" && revision != "default" {
		services = append(services, "istiod-"+revision)
	}
	for _, service := range services {
		list = append(list, service+"."+namespace+".svc")
	}
	slices.Sort(list[len(s.Hosts):])
	return slices.Compact(list)
}
